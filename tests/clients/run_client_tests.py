# SPDX-License-Identifier: Apache-2.0
"""Runs all tests of this folder under the Python that has OpenAI's client, and reports each case as
GoogleTest does, so that scripts/run_tests.py counts them.

Usage: run_client_tests.py --program SWIFTKV --model-writer WRITE_TINY_MODEL [--report FILE] [NAME ...]

NAMEs choose tests as those of unittest do: openai_chat_test, or openai_chat_test.Class.test.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"


class Recorder(unittest.TextTestResult):
    """Keeps what became of each case."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.cases = {}  # (class, test): (what became of it, why, seconds)
        self.started = 0.0

    def note(self, test, outcome, reason=""):
        """Keeps the outcome of a case; a failure stays one, whatever comes after it."""
        _, name, case = ("..." + test.id()).rsplit(".", 2)
        if self.cases.get((name, case), ("",))[0] != "failure":
            self.cases[name, case] = (outcome, reason, time.monotonic() - self.started)

    # unittest chose these names.
    # pylint: disable=invalid-name,missing-function-docstring
    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "success")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failure", str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failure", str(err[1]))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failure", f"{subtest}: {err[1]}")


def write_report(cases, path):
    """Writes the cases as GoogleTest's XML, with what run_tests.py reads of it."""
    root = ElementTree.Element("testsuites")
    for (name, case), (outcome, reason, seconds) in cases.items():
        row = ElementTree.SubElement(root, "testcase", name=case, classname=name, status="run")
        row.set("time", f"{seconds:.3f}")
        if outcome != "success":
            ElementTree.SubElement(row, outcome, message=reason)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path)


def client_python():
    """Returns the Python that has the client, installing it where it can; "" where it cannot."""
    found = subprocess.run(
        [sys.executable, "-B", SCRIPTS / "fetch_openai_client.py"],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    return found.stdout.strip() if found.returncode == 0 else ""


def read_arguments():
    """Returns the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--program", required=True, help="the built swiftkv")
    add("--model-writer", required=True, help="the built write_tiny_model")
    add("--report", type=pathlib.Path, help="where the cases are written as XML")
    add("names", nargs="*", metavar="NAME", help="tests to run; all without one")
    return parser.parse_args()


def run(names, pattern):
    """Runs the named tests, or those of all files that match the pattern, and returns the result."""
    sys.path.insert(0, str(HERE))
    loader = unittest.TestLoader()
    if names:
        tests = loader.loadTestsFromNames(names)
    else:
        tests = loader.discover(str(HERE), pattern=pattern)
    return unittest.TextTestRunner(resultclass=Recorder, verbosity=2).run(tests)


def main():
    """Runs the tests and returns 0 if none failed."""
    arguments = read_arguments()
    if "SWIFTKV_CLIENT_PYTHON" not in os.environ:
        os.environ["SWIFTKV_CLIENT_PYTHON"] = python = client_python()
        if python:
            os.execv(python, [python, "-B", *sys.argv])
    os.environ["SWIFTKV_PROGRAM"] = arguments.program
    os.environ["SWIFTKV_MODEL_WRITER"] = arguments.model_writer
    result = run(
        arguments.names, "*_test.py" if os.environ["SWIFTKV_CLIENT_PYTHON"] else "raw_*_test.py"
    )
    if not os.environ["SWIFTKV_CLIENT_PYTHON"]:
        result.cases["OpenAIClient", "AllTests"] = (
            "skipped",
            "the client cannot be installed",
            0.0,
        )
        print("OpenAI's client cannot be installed: its tests are skipped", file=sys.stderr)
    if arguments.report:
        write_report(result.cases, arguments.report)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
