#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the limits of the house: lines of a file and of a function, parameters, virtual functions
of a seam, heads; and that no two types have one name.

Reads C++ with brackets matched and literals blanked; no compiler is needed. Prints one line per
offence.
"""

import re
import sys

from source_files import code_only, cpp_files, line_of, read

FILE_LINES = 400
FUNCTION_LINES = 70
PARAMETERS = 6
VIRTUALS = 7
LINE_WIDTH = 100
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}
# The macros, and what they are made of.
MACROS = re.compile(r"SKV_(CHECK|RETURN_IF_ERROR|ASSIGN_OR_RETURN(_\w+)?)$")

# A name, its parameters, whatever may stand between them and the body, and the body's opening
# brace.
FUNCTION = re.compile(
    r"(?P<name>~?[A-Za-z_]\w*(?:\s*<[^<>;{}()]*>)?(?:::~?[A-Za-z_]\w*)*|operator\s*[^\s\w(]{1,3}|operator\(\))\s*\("
)
NOT_FUNCTIONS = {
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
    "sizeof",
    "alignof",
    "decltype",
    "static_assert",
    "requires",
    "noexcept",
    "defined",
    "alignas",
    "__attribute__",
    "new",
    "delete",
    "throw",
    "assert",
}
TRAILER = re.compile(
    r"\s*(?:(?:noexcept\s*\([^()]*\)|(?:const|noexcept|override|final|mutable|try)\b|&&?|"
    r"->\s*[\w:<>,&*\s]+?(?=\{))\s*)*"
)


def matching(code, start, opening, closing):
    """Returns the offset of the bracket that closes the one at `start`, or -1."""
    depth = 0
    for offset in range(start, len(code)):
        if code[offset] == opening:
            depth += 1
        elif code[offset] == closing:
            depth -= 1
            if depth == 0:
                return offset
    return -1


def parameters_in(text):
    """Counts the parameters in the text between a pair of parentheses."""
    depth, count = 0, 1
    for character in text:
        depth += character in "([{<"
        depth -= character in ")]}>"
        count += character == "," and depth == 0
    return 0 if text.strip() in ("", "void") else count


def skip_initializers(code, offset):
    """Returns where the body of a constructor begins whose initialisers begin at `offset`, or -1."""
    while offset < len(code):
        item = re.compile(r"[\s,:]*[\w:]+(?:<[^;{}()]*>)?\s*([({])").match(code, offset)
        if not item:
            return offset if re.compile(r"\s*\{").match(code, offset) else -1
        opening = item.group(1)
        offset = matching(code, item.end() - 1, opening, ")" if opening == "(" else "}") + 1
        rest = re.compile(r"\s*(?:\.\.\.)?\s*([,{])").match(code, offset)
        if not rest:
            return -1
        if rest.group(1) == "{":
            return rest.end() - 1
    return -1


def functions(code):
    """Yields (name, offset, parameter count, body start, body end) of the function definitions in
    blanked code."""
    for match in FUNCTION.finditer(code):
        name = match.group("name")
        if name in NOT_FUNCTIONS:
            continue
        closing = matching(code, match.end() - 1, "(", ")")
        if closing < 0:
            continue
        after = TRAILER.match(code, closing + 1).end()
        if code[after : after + 1] == ":" and code[after : after + 2] != "::":
            after = skip_initializers(code, after + 1)
        if after < 0 or code[after : after + 1] != "{":
            continue
        yield name, match.start(), parameters_in(code[match.end() : closing]), after, matching(
            code, after, "{", "}"
        )


def check_declarations(path, code, problems):
    """Appends declarations with too many parameters (definitions are checked where they stand)."""
    pattern = re.compile(
        r"(?<![\w.>])([A-Z]\w*)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(?:const|noexcept|override|"
        r"\s)*(?:= ?0)?;"
    )
    for match in pattern.finditer(code):
        count = parameters_in(match.group(2))
        if count > PARAMETERS:
            problems.append(
                f"{path}:{line_of(code, match.start())}: {match.group(1)} has {count} parameters; "
                f"at most {PARAMETERS}, then a struct"
            )


def check_virtuals(path, code, problems):
    """Appends classes with too many virtual functions."""
    for match in re.finditer(r"\b(?:class|struct)\s+(\w+)[^;{}()]*\{", code):
        body = code[match.end() : matching(code, match.end() - 1, "{", "}")]
        count = len(re.findall(r"\bvirtual\b(?!\s*~)", body))
        if count > VIRTUALS:
            problems.append(
                f"{path}:{line_of(code, match.start())}: {match.group(1)} has {count} virtual functions; "
                f"at most {VIRTUALS}"
            )


def check_head(path, text, problems):
    """Appends a file whose first lines are not the licence tag and what the file does."""
    lines = text.split("\n", 2)
    if lines[0] != "// SPDX-License-Identifier: Apache-2.0":
        problems.append(
            f"{path}:1: the first line must be '// SPDX-License-Identifier: Apache-2.0'"
        )
    elif len(lines) < 2 or not re.match(r"// [A-Z][a-z]+s\b", lines[1]):
        problems.append(
            f"{path}:2: the second line must start with a verb ('// Maps ...'), not: {lines[1][:40]}"
        )
    if path.suffix == ".h" and "#pragma once" not in text:
        problems.append(f"{path}: a header needs #pragma once")


def check_file(path, problems):
    """Appends the offences of one file."""
    text = read(path)
    code = code_only(text)
    lines = text.count("\n")
    if lines > FILE_LINES:
        problems.append(f"{path}: {lines} lines; at most {FILE_LINES}: split it along its jobs")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LINE_WIDTH and "http" not in line and "#include" not in line:
            problems.append(f"{path}:{number}: {len(line)} columns; at most {LINE_WIDTH}")
    for name, offset, count, start, end in functions(code):
        length = code.count("\n", start, end) + 1
        where = f"{path}:{line_of(code, offset)}"
        if length > FUNCTION_LINES:
            problems.append(f"{where}: {name} has {length} lines; at most {FUNCTION_LINES}")
        if count > PARAMETERS and not re.match(r"[A-Z0-9_]+$", name):
            problems.append(
                f"{where}: {name} has {count} parameters; at most {PARAMETERS}, then a struct"
            )
    check_declarations(path, code, problems)
    check_virtuals(path, code, problems)
    check_head(path, text, problems)
    if set(re.split(r"[_\W]", path.stem)) & FORBIDDEN_NAMES:
        problems.append(
            f"{path}: a unit is named after its job, not {', '.join(sorted(FORBIDDEN_NAMES))}"
        )
    for match in re.finditer(r"^\s*#\s*define\s+(\w+)", code, re.MULTILINE):
        if not MACROS.match(match.group(1)) and path.parts[0] in ("src", "include"):
            problems.append(
                f"{path}:{line_of(code, match.start(1))}: the macros are SKV_CHECK, SKV_RETURN_IF_ERROR "
                f"and SKV_ASSIGN_OR_RETURN; no {match.group(1)}"
            )


def check_types(paths, problems):
    """Appends types of one name in two files: the linker takes the members of either for both."""
    first = {}
    for path in paths:
        code = re.sub(
            r"^namespace \{$.*?^\}$", "", code_only(read(path)), flags=re.MULTILINE | re.DOTALL
        )
        pattern = r"^(?:struct|class|enum class) (\w+)(?: final)?(?:\s*:(?!:)[^;{]*)?\s*\{"
        for name in re.findall(pattern, code, re.MULTILINE):
            if first.setdefault(name, path) != path:
                problems.append(f"{path}: {name} is the name of another type in {first[name]}")


def main():
    """Prints the offences and returns 1 if there are any."""
    problems = []
    for path in cpp_files():
        check_file(path, problems)
    check_types(cpp_files("include", "src"), problems)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
