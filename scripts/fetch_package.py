# SPDX-License-Identifier: Apache-2.0
"""Downloads one file of one package at an exact version, through pip and whatever index pip is
configured for.

pip's own finder and session locate and stream the file, so that nothing of the package is built or
run. Should pip's insides have changed, the plain `pip download` command is used instead. The caller
checks the SHA-256.
"""

import contextlib
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import time

from setup_cache import StepFailed, say

REMEDY = (
    "check the network and pip's configuration (`pip config list`, PIP_* variables); with the file "
    "at hand, give it by the variable that `make help` names"
)


def ensure_pip():
    """Restarts the program under the system's Python when this one has no pip."""
    if importlib.util.find_spec("pip") is not None:
        return
    system_python = "/usr/bin/python3"
    has_pip = (
        subprocess.run(
            [system_python, "-c", "import pip"], check=False, capture_output=True
        ).returncode
        == 0
    )
    if not has_pip or sys.executable == system_python:
        raise StepFailed(
            "finding pip",
            f"neither {sys.executable} nor {system_python} has pip",
            "install it (`apt-get install python3-pip`)",
        )
    raise SystemExit(subprocess.run([system_python, *sys.argv], check=False).returncode)


class Progress:
    """Shows how much of a download has come: a moving line on a terminal or a line per quarter."""

    def __init__(self, name, total):
        self.name, self.total, self.done = name, total, 0
        self.terminal = sys.stderr.isatty()
        self.shown, self.last = 0, 0.0

    def add(self, count):
        """Counts `count` more bytes."""
        self.done += count
        megabytes = f"{self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB"
        if self.terminal and time.monotonic() - self.last > 0.1:
            self.last = time.monotonic()
            print(f"\r[setup] {self.name}: {megabytes} ", end="", file=sys.stderr, flush=True)
        elif not self.terminal and self.total and self.done * 4 // self.total > self.shown:
            self.shown = self.done * 4 // self.total
            say(f"{self.name}: {megabytes}")

    def close(self):
        """Ends the moving line."""
        if self.terminal:
            print(
                f"\r[setup] {self.name}: {self.done / 1e6:.0f} MB          ",
                file=sys.stderr,
                flush=True,
            )


def stream_link(session, link, target):
    """Writes the file behind `link` to `target`."""
    if link.is_file:
        shutil.copyfile(link.file_path, target)
        return
    address = link.url_without_fragment
    with contextlib.closing(
        session.get(address, stream=True, headers={"Accept-Encoding": "identity"})
    ) as response:
        response.raise_for_status()
        progress = Progress(link.filename, int(response.headers.get("Content-Length", 0)))
        with open(target, "wb") as handle:
            for chunk in response.iter_content(1 << 18):
                handle.write(chunk)
                progress.add(len(chunk))
        progress.close()


def fetch_with_finder(package, version, source, folder):
    """Returns the downloaded file, found by pip's own finder; raises whatever pip raises."""
    from pip._internal.commands import create_command  # pylint: disable=import-outside-toplevel

    command = create_command("download")
    choice = ["--no-binary", package] if source else ["--only-binary", package]
    options, _ = command.parse_args(["--no-deps", *choice, f"{package}=={version}"])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(
            options=options, session=session
        )  # pylint: disable=protected-access
        candidates = [c for c in finder.find_all_candidates(package) if str(c.version) == version]
        if not candidates:
            raise LookupError(
                f"the index has no {'source' if source else 'wheel'} of {package} {version}"
            )
        link = candidates[-1].link
        target = folder / link.filename
        stream_link(session, link, target)
    return target


def fetch_with_command(package, version, source, folder):
    """Returns the file that `pip download` brings; it may build a source archive's metadata."""
    choice = ["--no-binary", package] if source else ["--only-binary", package]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        *choice,
        "--dest",
        str(folder),
        f"{package}=={version}",
    ]
    finished = subprocess.run(command, check=False, stdout=sys.stderr.fileno())
    files = [path for path in folder.iterdir() if path.is_file()]
    if finished.returncode != 0 or len(files) != 1:
        raise StepFailed(
            f"downloading {package} {version}",
            f"pip ended with status {finished.returncode}",
            REMEDY,
        )
    return files[0]


def fetch(package, version, folder, source=False):
    """Returns the path of the package's wheel (or source archive) in `folder`, an existing empty
    directory."""
    folder = pathlib.Path(folder)
    ensure_pip()
    say(f"downloading {package} {version}")
    try:
        return fetch_with_finder(package, version, source, folder)
    except Exception as failure:  # pylint: disable=broad-except  # pip's insides promise nothing
        say(
            f"pip's finder did not deliver ({type(failure).__name__}: {failure}); "
            "trying `pip download`"
        )
    for leftover in folder.iterdir():
        leftover.unlink()
    return fetch_with_command(package, version, source, folder)
