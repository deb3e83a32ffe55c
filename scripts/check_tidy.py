#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over src with the checks of .clang-tidy: check_tidy.py BUILD_DIRECTORY [file ...]

Files are checked side by side on all cores. A file whose text and own headers were clean before is
not checked again: the verdicts lie in BUILD_DIRECTORY/tidy under a hash of everything of ours that
the file may include.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

from source_files import ROOT, cpp_files, read


def find_tidy():
    """Returns the clang-tidy program, version 14 first."""
    for name in ("clang-tidy-14", "clang-tidy"):
        path = shutil.which(name)
        if path:
            return path
    print("clang-tidy is missing; scripts/install_packages.sh checks installs it", file=sys.stderr)
    sys.exit(1)


def shared_digest(tidy):
    """Hashes what every verdict depends on: the tool, the checks and all our headers."""
    digest = hashlib.sha256(
        subprocess.run([tidy, "--version"], check=True, capture_output=True).stdout
    )
    digest.update(read(".clang-tidy").encode())
    for path in cpp_files("include", "src"):
        if path.suffix == ".h":
            digest.update(f"{path}\0{read(path)}\0".encode())
    return digest


def check(tidy, build, path, verdict):
    """Checks one file and returns what clang-tidy found, or an empty text."""
    if verdict.exists():
        return ""
    command = [
        tidy,
        "--quiet",
        "-p",
        str(build),
        "--extra-arg=-Wno-unknown-warning-option",
        str(ROOT / path),
    ]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode == 0:
        verdict.touch()
        return ""
    return finished.stdout + (finished.stderr if "error:" not in finished.stdout else "")


def main():
    """Checks the files, prints the findings, and returns 1 if there are any."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[1])
    compiled = {
        pathlib.Path(entry["file"]).resolve()
        for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    }
    paths = [pathlib.Path(name).resolve().relative_to(ROOT) for name in sys.argv[2:]] or [
        path for path in cpp_files("src") if path.suffix == ".cpp"
    ]
    paths = [path for path in paths if (ROOT / path).resolve() in compiled]
    tidy, verdicts = find_tidy(), build / "tidy"
    verdicts.mkdir(exist_ok=True)
    shared = shared_digest(tidy)

    def verdict_of(path):
        digest = shared.copy()
        digest.update(f"{path}\0{read(path)}".encode())
        return verdicts / digest.hexdigest()

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        findings = list(pool.map(lambda path: check(tidy, build, path, verdict_of(path)), paths))
    for finding in filter(None, findings):
        print(finding)
    print(f"clang-tidy: {len(paths)} files, {sum(map(bool, findings))} with findings")
    return 1 if any(findings) else 0


if __name__ == "__main__":
    sys.exit(main())
