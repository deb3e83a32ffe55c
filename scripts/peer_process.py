# SPDX-License-Identifier: Apache-2.0
"""Keeps a server running for as long as it is measured."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from peer_engines import PeerFailed

POLL_SECONDS = 0.2
LAST_WORDS_SECONDS = 20  # after SIGTERM


def free_port():
    """Returns a port of loopback on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_ready(address):
    """Whether GET /health of the server succeeds."""
    try:
        urllib.request.urlopen(address + "/health", timeout=5).close()
    except (OSError, urllib.error.URLError):
        return False
    return True


def last_words(log):
    """Returns the last line that a server wrote."""
    log.seek(0)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    return (lines or ["nothing"])[-1].strip()[:200]


@contextlib.contextmanager
def serving(command, port, patience_seconds, environment=None):
    """Runs a server and yields its address once it is ready; PeerFailed where it ends before or
    takes longer. What it writes is kept for that message only."""
    address = f"http://127.0.0.1:{port}"
    name = os.path.basename(str(command[0]))
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            deadline = time.monotonic() + patience_seconds
            while not is_ready(address):
                if process.poll() is not None:
                    raise PeerFailed(
                        f"{name} ended with status {process.returncode}: {last_words(log)}"
                    )
                if time.monotonic() > deadline:
                    raise PeerFailed(f"{name} was not ready after {patience_seconds} s")
                time.sleep(POLL_SECONDS)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(timeout=LAST_WORDS_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
