#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ctest in a build directory and counts the cases of all test programs in one last line.

Usage: run_tests.py BUILD_DIRECTORY [ctest arguments]

ctest knows programs; a GoogleTest program reports its cases in test-results/<program>.xml. A
program that fails without saying which case did (a crash, a time-out) counts as one failure, as do
tests that are no GoogleTest.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from setup_cache import cache_root


class Count:
    """Adds up passed, failed and skipped cases."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.skip_reasons = []

    def add_program(self, report):
        """Counts the cases of one GoogleTest report and returns how many failed."""
        failed = 0
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None:
                failed += 1
                print(f"FAILED {name}")
            elif skipped is not None or case.get("result") == "skipped":
                self.skipped += 1
                message = (skipped.get("message") if skipped is not None else "") or ""
                self.skip_reasons.append(
                    f"skipped {name}: {' '.join(message.split()) or 'no reason given'}"
                )
            elif case.get("status") == "run":
                self.passed += 1
        self.failed += failed
        return failed

    def line(self):
        """Returns the closing line."""
        return f"{self.passed} passed, {self.failed} failed" + (
            f", {self.skipped} skipped" if self.skipped else ""
        )


def environment():
    """Returns the environment of the tests: where models lie; sanitizers stop at the first finding and
    say where; threads that wait leave the cores to the tests beside them."""
    result = dict(os.environ)
    result.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    result.setdefault("SWIFTKV_TEST_MODELS", str(cache_root() / "models"))
    result.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    result.setdefault("ASAN_OPTIONS", "detect_stack_use_after_return=1:strict_string_checks=1")
    return result


def main():
    """Runs the tests, prints the count, returns 0 only if something passed and nothing failed."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[1])
    results = build / "test-results"
    shutil.rmtree(results, ignore_errors=True)
    report = results / "ctest.xml"
    results.mkdir(parents=True)
    command = [
        "ctest",
        "--test-dir",
        str(build),
        "--output-on-failure",
        "--output-junit",
        str(report.absolute()),
        "--parallel",
        str(len(os.sched_getaffinity(0))),
        *sys.argv[2:],
    ]
    finished = subprocess.run(command, check=False, env=environment())

    count = Count()
    programs = ElementTree.parse(report).getroot().iter("testcase") if report.is_file() else []
    for program in programs:
        cases = results / f"{program.get('name')}.xml"
        ran_well = program.get("status") == "run"
        try:
            failed = count.add_program(cases) if cases.is_file() else 0
        except ElementTree.ParseError:
            failed = 0
        if not ran_well and failed == 0:
            count.failed += 1
            print(f"FAILED {program.get('name')} ({program.get('status')})")
        elif ran_well and not cases.is_file():
            count.passed += 1
    for reason in count.skip_reasons:
        print(reason)
    print(count.line(), flush=True)
    return 0 if count.failed == 0 and count.passed > 0 and finished.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
