#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that documents name files that exist, that the README stays short, and that links inside
the tree hold."""

import re
import sys

from source_files import ROOT

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
README_LINES = 150
PLACES = ("src", "include", "tests", "benches", "docs", "scripts", "cmake")
# A path in back quotes that begins with a folder of the tree and ends in a file type.
NAMED = re.compile(r"`((?:%s)/[\w./-]*\.(?:h|cpp|md|py|sh|cmake|txt|json|map))`" % "|".join(PLACES))
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def main():
    """Prints the offences and returns 1 if there are any."""
    problems = []
    paths = [ROOT / name for name in DOCUMENTS] + sorted((ROOT / "docs").glob("*.md"))
    for path in paths:
        name = path.relative_to(ROOT)
        if not path.is_file():
            problems.append(f"{name}: is missing")
            continue
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.split("\n"), 1):
            for match in NAMED.finditer(line):
                if not (ROOT / match.group(1)).exists():
                    problems.append(
                        f"{name}:{number}: names {match.group(1)}, which does not exist"
                    )
            for match in LINK.finditer(line):
                if not (path.parent / match.group(1)).exists():
                    problems.append(
                        f"{name}:{number}: links to {match.group(1)}, which does not exist"
                    )
        if path.name == "README.md" and text.count("\n") >= README_LINES:
            problems.append(f"{name}: {text.count(chr(10))} lines; fewer than {README_LINES}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
