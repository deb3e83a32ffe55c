#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that folders are layers: who may include whom, who may see which library, who may print
or read flags.

The arrows are those of ARCHITECTURE.md. A public header belongs to the layer that its first comment
names ("Layer: cache."). Prints one line per offence.
"""

import re
import sys

from source_files import ROOT, code_only, cpp_files, line_of, read

# What each layer may include, itself and the layers below it (transitively).
BELOW = {
    "base": set(),
    "formats": {"base"},
    "cache": {"base", "formats"},
    "policy": {"base", "formats", "cache"},
    "attention": {"base", "formats", "cache"},
    "model": {"base", "formats", "cache", "attention"},
    "engine": {"base", "formats", "cache", "attention", "policy", "model"},
    "server": {"base", "formats", "cache", "attention", "policy", "model", "engine"},
    "tools": {"base", "formats", "cache", "attention", "policy", "model", "engine", "server"},
}
ALL = set(BELOW)
# Of the cache, policy sees plain data: public headers, and these.
POLICY_CACHE_HEADERS = {"cache/block_key.h", "cache/page_view.h"}

# Third-party headers and the layers that may see them.
LIBRARIES = (
    (re.compile(r"^(ggml|llama|gguf)[a-z0-9_-]*\.h$"), {"model"}, "ggml and llama.cpp"),
    (
        re.compile(r"^(chat|common|sampling|json|json-schema[a-z-]*|peg-parser|jinja/.*)\.h$"),
        {"model"},
        "llama.cpp's common code",
    ),
    (re.compile(r"^nlohmann/"), {"server", "tools"}, "the JSON library"),
    (re.compile(r"^CLI/"), {"tools"}, "the flag parser"),
    (re.compile(r"^spdlog/"), {"server", "tools"}, "the logger"),
    (re.compile(r"^boost/"), {"server", "tools"}, "Boost"),
    (re.compile(r"^prometheus/"), {"server"}, "the metrics library"),
    (re.compile(r"^(openssl/|xxhash|zstd)"), {"cache", "model"}, "hashing and compression"),
)

# Words of code and the layers that may use them.
WORDS = (
    (re.compile(r"\b(?:secure_)?getenv\s*\("), {"tools"}, "reads the environment"),
    (
        re.compile(
            r"\bstd::(?:cout|cerr|clog)\b|\bstd::print(?:ln)?\b|\b(?:std::)?(?:printf|puts|putchar)\s*\(|"
            r"\b(?:std::)?f(?:printf|puts|putc|write)\s*\([^;]*\bstd(?:out|err)\b|\bfmt::print\s*\("
        ),
        {"server", "tools"},
        "prints",
    ),
    (re.compile(r"\b(?:std::)?(?:exit|_exit|quick_exit)\s*\("), {"tools"}, "exits"),
)
# A broken invariant, ours or ggml's, says so on stderr before the process stops; nothing else below
# server prints.
LAST_WORDS = {"src/base/status.cpp", "src/model/llama_guard.cpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def public_layers(problems):
    """Returns the layer of each public header, as its first comment names it."""
    layers = {}
    for path in cpp_files("include"):
        comment = " ".join(read(path).split("#pragma once")[0].replace("//", " ").split())
        named = re.search(r"Layer: ([a-z]+)\.", comment)
        if named and named.group(1) in ALL:
            layers[str(path.relative_to("include"))] = named.group(1)
        else:
            problems.append(
                f"{path}: the first comment must name the header's layer, e.g. 'Layer: cache.'"
            )
    return layers


def included_layer(name, layers):
    """Returns the layer that an include of ours names, or None for any other header."""
    if name in layers:
        return layers[name]
    first = name.split("/")[0]
    return first if first in ALL and (ROOT / "src" / name).exists() else None


def check_file(path, layer, layers, problems):
    """Appends the offences of one file that belongs to `layer`."""
    text = read(path)
    public = path.parts[0] == "include"
    for match in INCLUDE.finditer(text):
        name, where = match.group(2), f"{path}:{line_of(text, match.start(2))}"
        target = included_layer(name, layers)
        if target is None:
            for pattern, allowed, what in LIBRARIES:
                if pattern.match(name) and layer not in allowed:
                    problems.append(
                        f"{where}: {layer} may not see {what} ({name}); only {', '.join(sorted(allowed))}"
                    )
            if public and match.group(1) == '"':
                problems.append(
                    f"{where}: a public header includes only public headers, not {name}"
                )
            continue
        if target != layer and target not in BELOW[layer]:
            problems.append(f"{where}: {layer} may not include {target} ({name})")
        if public and name not in layers:
            problems.append(f"{where}: a public header includes only public headers, not {name}")
        if layer == "policy" and name.startswith("cache/") and name not in POLICY_CACHE_HEADERS:
            problems.append(
                f"{where}: policy sees the cache's plain data only "
                f"({', '.join(sorted(POLICY_CACHE_HEADERS))}), not {name}"
            )
    code = code_only(text)
    for pattern, allowed, what in WORDS:
        if layer in allowed or (what == "prints" and str(path) in LAST_WORDS):
            continue
        for match in pattern.finditer(code):
            problems.append(
                f"{path}:{line_of(code, match.start())}: {layer} {what} ({match.group(0)[:40].strip()}); "
                f"only {', '.join(sorted(allowed))} may"
            )


def main():
    """Prints the offences and returns 1 if there are any."""
    problems = []
    layers = public_layers(problems)
    for path in cpp_files("include"):
        layer = layers.get(str(path.relative_to("include")))
        if layer:
            check_file(path, layer, layers, problems)
    for path in cpp_files("src"):
        layer = path.parts[1]
        if layer in ALL:
            check_file(path, layer, layers, problems)
        else:
            problems.append(f"{path}: src/{layer} is no layer; the layers are {', '.join(BELOW)}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
