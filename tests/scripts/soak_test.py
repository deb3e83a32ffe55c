# SPDX-License-Identifier: Apache-2.0
"""Tests what the soak draws from its seed, and how it judges replies and samples of memory."""

import dataclasses
import pathlib
import sys
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

# pylint: disable=wrong-import-position
import soak_errands
import soak_server

HEAD = b"HTTP/1.1 %d x\r\nServer: x\r\n%s\r\n"
STREAM = HEAD % (200, b"Transfer-Encoding: chunked\r\n")


def errands(seed, client, count=200, phase="mixed"):
    """Returns the first errands of a client."""
    drawn = soak_errands.Errands(seed, client, phase)
    return [dataclasses.astuple(drawn.draw()) for _ in range(count)]


def chunked(*chunks):
    """Returns a chunked body."""
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


class ErrandsTest(unittest.TestCase):
    """What clients do."""

    def test_the_same_seed_and_client_do_the_same(self):
        self.assertEqual(errands(7, 3), errands(7, 3))
        self.assertNotEqual(errands(7, 3), errands(7, 4))
        self.assertNotEqual(errands(7, 3), errands(8, 3))

    def test_clients_stay_and_leave_at_every_point(self):
        drawn = errands(1, 1)
        names = {name for name, *_ in drawn}
        self.assertEqual(names, {"completion", "chat", "schema", "tools", "wrong", "small"})
        sending = [row for row in drawn if row[4] >= 0]
        reading = [row for row in drawn if row[5] >= 0]
        self.assertTrue(0 < len(sending) < len(reading) < len(drawn) / 2)
        self.assertTrue(all(row[4] < len(row[1]) for row in sending))


    def test_a_phase_sends_one_kind(self):
        kinds = {"unique": {"unique"}, "repeated": {"repeated"}, "left": {"left"}}
        for phase, names in {**kinds, "refused": {"wrong"}}.items():
            self.assertEqual({row[0] for row in errands(1, 1, phase=phase)}, names)
        bodies = [row[1] for client in (1, 2) for row in errands(1, client, phase="unique")]
        self.assertEqual(len(set(bodies)), len(bodies))
        self.assertEqual(len({row[1] for row in errands(1, 1, phase="repeated")}), 3)
        left = errands(1, 1, phase="left")
        self.assertTrue(all(row[4] >= 0 or row[5] >= 0 for row in left))
        self.assertTrue(all(row[2][0] >= 400 for row in errands(1, 1, phase="refused")))


class FaultTest(unittest.TestCase):
    """What is right and wrong with a reply."""

    def test_a_reply_that_speaks_of_errors_is_no_error(self):
        spoken = STREAM + chunked(b'data: {"content": "error"}\n\n', b"data: [DONE]\n\n")
        self.assertEqual(self.fault(spoken), "")

    def fault(self, reply, statuses=(200,)):
        """Returns what is wrong with a reply."""
        return soak_errands.fault_of(soak_errands.Errand("x", b"", statuses), reply)

    def test_whole_replies_of_the_right_status_are_right(self):
        self.assertEqual(self.fault(HEAD % (200, b"") + b"{}"), "")
        self.assertEqual(self.fault(HEAD % (400, b"") + b'{"error": {}}', (400,)), "")
        self.assertEqual(self.fault(STREAM + chunked(b"data: {}\n\n", b"data: [DONE]\n\n")), "")

    def test_replies_that_are_cut_short_are_wrong(self):
        whole = STREAM + chunked(b"data: {}\n\n", b"data: [DONE]\n\n")
        for end in range(len(whole)):
            self.assertNotEqual(self.fault(whole[:end]), "", whole[:end])
        self.assertIn("cut short", self.fault(STREAM + chunked(b"data: {}\n\n")))

    def test_errors_where_none_may_be_are_wrong(self):
        self.assertIn("status 500", self.fault(HEAD % (500, b"") + b"{}"))
        self.assertIn("error", self.fault(HEAD % (200, b"") + b'{"error": {}}'))
        failed = STREAM + chunked(b'data: {"error": {}}\n\n', b"data: [DONE]\n\n")
        self.assertIn("error", self.fault(failed))


class SlopeTest(unittest.TestCase):
    """Memory over time."""

    def test_a_line_is_found_through_its_own_points_and_through_noise_about_them(self):
        self.assertAlmostEqual(soak_server.slope([(t, 5 + 3 * t) for t in range(10)]), 3)
        noisy = [(t, 100 - 2 * t + (1 if t % 2 else -1)) for t in range(101)]
        self.assertAlmostEqual(soak_server.slope(noisy), -2, places=2)
        self.assertEqual(soak_server.slope([(4, 9)]), 0)
