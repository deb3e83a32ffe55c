# SPDX-License-Identifier: Apache-2.0
"""Runs scripts/soak_server.py for a moment on the tiny model."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from served_model import PATIENCE_SECONDS, write_model

SOAK = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "soak_server.py"


class SoakTest(unittest.TestCase):
    """Mixed traffic."""

    def test_many_clients_who_come_and_go_leave_nothing_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-B", SOAK, "--seconds", "2", "--clients", "12"]
            command += ["--program", os.environ["SWIFTKV_PROGRAM"], "--model", write_model(folder)]
            command += ["--kv-memory", "4MiB"]
            command += ["--most-growth", "100000"]  # a line through two seconds says nothing
            finished = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS
            )
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        for mark in ("ALIVE", "DRAINED", "RIGHT"):
            self.assertIn(f"ok   {mark}", finished.stdout)
