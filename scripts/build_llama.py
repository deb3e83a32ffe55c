#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the pinned llama.cpp once per version, compiler, flags and CPU, and prints the installed
prefix.

Usage: build_llama.py [--peers]

With --peers it builds llama.cpp's own programs (llama-bench, llama-server, ...) from the same tree
with the same compiler and flags, to be measured beside ours. CC, CXX, CFLAGS and CXXFLAGS are
honoured.
"""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import fetch_llama
from setup_cache import (
    StepFailed,
    cache_root,
    fresh_directory,
    locked,
    run_step,
    say,
    scratch_directory,
)

RECIPE = pathlib.Path(__file__).resolve().parent.parent / "cmake" / "llama"


def compilers():
    """Returns the C and C++ compiler as absolute paths."""
    found = []
    for variable, default in (("CC", "cc"), ("CXX", "c++")):
        name = os.environ.get(variable) or default
        path = shutil.which(name)
        if not path:
            raise StepFailed(
                "finding a compiler",
                f"no program {name}",
                f"install g++ or set {variable} to a C++20 compiler",
            )
        found.append(path)
    return found


def cpu_features():
    """Returns the CPU's instruction sets: what is built for one CPU must not be taken by another."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    model = re.search(r"^model name\s*:(.*)$", text, re.MULTILINE)
    return (
        (model.group(1).strip() if model else "")
        + " "
        + " ".join(sorted(flags.group(1).split() if flags else []))
    )


def source_identity():
    """Returns what names the source: the pinned version, or path and age of a tree of the user's."""
    tree = fetch_llama.given_tree()
    if not tree:
        return fetch_llama.SHA256
    ages = [(tree / name).stat().st_mtime_ns for name in ("CMakeLists.txt", "include/llama.h")]
    return f"{tree} {ages}"


def cache_key(c_compiler, cxx_compiler):
    """Returns a short name for everything that the build's result depends on."""
    parts = [source_identity(), cpu_features()]
    for compiler in (c_compiler, cxx_compiler):
        version = subprocess.run(
            [compiler, "--version"], check=True, capture_output=True, text=True
        ).stdout
        parts += [compiler, version]
    parts += [os.environ.get(name, "") for name in ("CFLAGS", "CXXFLAGS", "LDFLAGS")]
    parts += [path.read_text(encoding="utf-8") for path in sorted(RECIPE.iterdir())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def run_cmake(arguments, step, quiet=False):
    """Runs cmake; what it says goes to stderr, with `quiet` only if it fails."""
    sink = subprocess.PIPE if quiet else sys.stderr.fileno()
    finished = subprocess.run(
        ["cmake", *arguments],
        check=False,
        stdout=sink,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
    )
    if finished.returncode != 0:
        sys.stderr.write(finished.stdout or "")
        raise StepFailed(
            step,
            f"cmake ended with status {finished.returncode}; its messages are above",
            "if a compiler was killed, memory ran out: set CMAKE_BUILD_PARALLEL_LEVEL=1; else "
            "check CC, CXX and the flags, and run the same command again",
        )


def build(prefix, c_compiler, cxx_compiler, peers):
    """Configures, builds and installs cmake/llama into `prefix`."""
    tree = fetch_llama.fetch_llama()
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(len(os.sched_getaffinity(0)))
    what = (
        "llama.cpp's own programs (4 to 6 minutes on 2 cores)"
        if peers
        else "llama.cpp (2 to 3 minutes on 2 cores)"
    )
    say(f"building {what}, once for this compiler and CPU")
    started = time.monotonic()
    with scratch_directory() as folder, fresh_directory(prefix) as working:
        run_cmake(
            [
                "-S",
                str(RECIPE),
                "-B",
                str(folder),
                "-G",
                "Ninja",
                f"-DSWIFTKV_LLAMA_SOURCE={tree}",
                f"-DCMAKE_INSTALL_PREFIX={working}",
                f"-DCMAKE_C_COMPILER={c_compiler}",
                f"-DCMAKE_CXX_COMPILER={cxx_compiler}",
                f"-DSWIFTKV_LLAMA_PEERS={'ON' if peers else 'OFF'}",
            ],
            "configuring llama.cpp",
            quiet=True,
        )
        run_cmake(
            ["--build", str(folder), "--parallel", jobs],
            "building llama.cpp",
        )
        run_cmake(["--install", str(folder)], "installing llama.cpp", quiet=True)
    say(f"llama.cpp built in {time.monotonic() - started:.0f} s")


def main():
    """Prints the prefix, building it first if needed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers", action="store_true", help="build llama.cpp's own programs instead"
    )
    arguments = parser.parse_args()
    c_compiler, cxx_compiler = compilers()
    kind = "peers" if arguments.peers else "llama"
    prefix = cache_root() / kind / cache_key(c_compiler, cxx_compiler)
    if not prefix.is_dir():
        with locked(f"{kind}-build"):
            if not prefix.is_dir():
                build(prefix, c_compiler, cxx_compiler, arguments.peers)
    print(prefix)
    return 0


if __name__ == "__main__":
    sys.exit(run_step(main))
