# SPDX-License-Identifier: Apache-2.0
"""Holds what the set-up steps share: where the cache is, errors that name their step, locks,
atomic moves.

Everything that the set-up fetches or builds outside the build directory lies under cache_root(). A
thing there is complete as soon as it exists under its final name: it is made under a temporary name
and renamed.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile


class StepFailed(Exception):
    """A set-up step that failed: which one, why, and what the user can do."""

    def __init__(self, step, reason, remedy):
        super().__init__(f"{step} failed: {reason}\n  what to do: {remedy}")


def cache_root():
    """Returns the cache directory; SWIFTKV_CACHE_DIR overrides the XDG default."""
    chosen = os.environ.get("SWIFTKV_CACHE_DIR")
    if chosen:
        return pathlib.Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "swiftkv"


def say(message):
    """Reports progress on stderr; stdout is for results that scripts read."""
    print(f"[setup] {message}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(name):
    """Lets one process at a time make the thing `name`; a second one waits and finds it made."""
    folder = cache_root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / name, "w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say(f"waiting for another set-up that makes {name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def fresh_directory(final):
    """Yields a temporary directory beside `final`, renamed to `final` if the block succeeds."""
    final.parent.mkdir(parents=True, exist_ok=True)
    working = pathlib.Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    try:
        yield working
        working.chmod(0o755)
        if final.exists():
            shutil.rmtree(final)
        working.rename(final)
    finally:
        shutil.rmtree(working, ignore_errors=True)


@contextlib.contextmanager
def scratch_directory():
    """Yields a directory inside the cache that is removed afterwards, whatever happens."""
    root = cache_root() / "tmp"
    root.mkdir(parents=True, exist_ok=True)
    working = pathlib.Path(tempfile.mkdtemp(dir=root))
    try:
        yield working
    finally:
        shutil.rmtree(working, ignore_errors=True)


def sha256_of(path):
    """Returns the SHA-256 of a file as hexadecimal text."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while chunk := handle.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def run_step(step):
    """Calls `step` and turns what it raises into one message and an exit status."""
    try:
        return step()
    except StepFailed as failure:
        print(f"[setup] {failure}", file=sys.stderr)
    except OSError as failure:
        print(
            f"[setup] the set-up failed: {failure}\n  what to do: make sure that {cache_root()} is "
            "writable and has 1 GB free, or name another directory in SWIFTKV_CACHE_DIR",
            file=sys.stderr,
        )
    except KeyboardInterrupt:
        print("[setup] interrupted; run the same command again to go on", file=sys.stderr)
    return 1
