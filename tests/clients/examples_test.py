# SPDX-License-Identifier: Apache-2.0
"""Runs the scripts of examples/openai_client as their readers would."""

import os
import pathlib
import subprocess
import sys

from served_model import PATIENCE_SECONDS, ServedTest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "openai_client"


class ExamplesTest(ServedTest):
    """Examples."""

    def run_example(self, name):
        """Returns what an example printed; it must end well."""
        finished = subprocess.run(
            [sys.executable, "-B", EXAMPLES / name],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            env={**os.environ, "SWIFTKV_URL": self.server.url},
        )
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        return finished.stdout

    def test_every_example_is_run_here(self):
        run = {name.removeprefix("test_") for name in dir(self) if name.startswith("test_")}
        self.assertLessEqual({path.stem for path in EXAMPLES.glob("*.py")}, run)

    def test_chat(self):
        self.assertRegex(self.run_example("chat.py"), r"\d+ tokens of prompt, \d+ of them from")

    def test_stream(self):
        cached = self.run_example("stream.py").splitlines()[-1]
        self.assertRegex(cached, r"\[[1-9]\d* of \d+ tokens of prompt from the cache\]")

    def test_json_schema(self):
        self.assertRegex(self.run_example("json_schema.py"), r"feeling: (good|mixed|bad), stars: ")

    def test_tools(self):
        called = self.run_example("tools.py").splitlines()[0]
        self.assertRegex(called, r"^\[weekday\(20\d\d-\d\d-\d\d\) gives \w+day\]$")
