#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs OpenAI's Python client, as tests/clients pins it, and prints the Python that imports it.

Usage: fetch_openai_client.py

The packages, 5 MB to download, go into a virtual environment in the cache folder, one for each
version of Python and of the list. The environment has no pip of its own, so that Debian's
python3-venv is not needed.
"""

import pathlib
import subprocess
import sys

from fetch_package import REMEDY, ensure_pip
from setup_cache import StepFailed, cache_root, fresh_directory, locked, run_step, say, sha256_of

REQUIREMENTS = (
    pathlib.Path(__file__).resolve().parent.parent / "tests" / "clients" / "requirements.txt"
)


def run(command):
    """Runs one command of the installation; what it says goes to standard error."""
    command = [str(part) for part in command]
    finished = subprocess.run(command, check=False, stdout=sys.stderr.fileno())
    if finished.returncode != 0:
        raise StepFailed(
            "installing OpenAI's client",
            f"`{' '.join(command[:4])} ...` ended with status {finished.returncode}",
            REMEDY,
        )


def install(folder):
    """Makes the environment `folder`."""
    say("installing OpenAI's Python client for the tests (5 MB to download)")
    with fresh_directory(folder) as working:
        run([sys.executable, "-m", "venv", "--without-pip", working])
        pip = [sys.executable, "-m", "pip", "--python", working / "bin" / "python", "install"]
        choice = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        run([*pip, *choice, "--requirement", REQUIREMENTS])


def main():
    """Prints the path of the environment's Python, making the environment first if needed."""
    ensure_pip()
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache_root() / "clients" / f"openai-{version}-{sha256_of(REQUIREMENTS)[:12]}"
    if not folder.is_dir():
        with locked("openai-client"):
            if not folder.is_dir():
                install(folder)
    print(folder / "bin" / "python")
    return 0


if __name__ == "__main__":
    sys.exit(run_step(main))
