# SPDX-License-Identifier: Apache-2.0
"""Lists the sources that the checks look at and strips comments and strings from their text."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "include", "tests", "benches", "cmake")

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


def cpp_files(*folders):
    """Returns the C++ files below the folders, as sorted paths relative to the repository."""
    found = []
    for folder in folders or FOLDERS:
        for suffix in ("*.h", "*.cpp"):
            found += [path.relative_to(ROOT) for path in (ROOT / folder).rglob(suffix)]
    return sorted(found)


def read(path):
    """Returns the text of a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def code_only(text):
    """Returns the text with comments and the contents of literals blanked, line numbers kept."""

    def blank(match):
        token = match.group(0)
        newlines = "\n" * token.count("\n")
        return newlines + (" " if token[0] == "/" else '""' if token[0] in 'R"' else "' '")

    return _TOKEN.sub(blank, text)


def line_of(text, offset):
    """Returns the number of the line that holds the offset, counted from 1."""
    return text.count("\n", 0, offset) + 1
