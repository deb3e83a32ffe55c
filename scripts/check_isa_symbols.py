#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that objects compiled for one instruction set keep their code to themselves:
check_isa_symbols.py BUILD_DIR

A weak symbol (an inline function, a template) of such an object may be the copy that the linker
keeps for the whole program, which then runs AVX-512 on a machine that has none. Prints one line per
weak symbol with code in it.
"""

import pathlib
import re
import subprocess
import sys

SUFFIX = re.compile(r"_(avx2|avx512\w*|amx)\.cpp\.o$")


def weak_functions(path):
    """Returns the names of the weak functions that an object defines."""
    listing = subprocess.run(
        ["nm", "--demangle", "--defined-only", str(path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return re.findall(r"^[0-9a-f]+ [Ww] (.*)$", listing, re.MULTILINE)


def main():
    """Prints the offences and returns 1 if there are any."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    objects = [path for path in pathlib.Path(sys.argv[1]).rglob("*.o") if SUFFIX.search(path.name)]
    if not objects:
        print(f"no object for an instruction set under {sys.argv[1]}; build it first")
        return 1
    offences = [
        f"{path.name.removesuffix('.o')}: {name}: make it part of an anonymous namespace"
        for path in sorted(objects)
        for name in weak_functions(path)
    ]
    print("\n".join(offences), end="\n" if offences else "")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
