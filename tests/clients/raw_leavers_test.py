# SPDX-License-Identifier: Apache-2.0
"""Tests clients that leave: what they waited for is not computed, and who waited behind them goes
next."""

import json

from raw_socket import RawTest, request


class LeaversTest(RawTest):
    """A server with one place, which a reply without an end has."""

    arguments = ("--max-seqs", "1")

    def ask_for(self, prompt, max_tokens, **fields):
        """Returns a connection on which a completion was asked for."""
        connection = self.connect()
        self.addCleanup(connection.socket.close)
        body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, **fields}
        connection.send(request(b"/v1/completions", json.dumps(body).encode()))
        return connection

    def test_of_twenty_that_leave_the_queue_none_is_computed_and_the_one_behind_them_is(self):
        endless = self.ask_for("the first", 100000, stream=True)
        self.assertIsNotNone(endless.read_until(b"data: "))
        before = self.server.wait_for(lambda kv: kv["running"] == 1)
        leavers = [self.ask_for(f"leaver {n} " * 20, 50, stream=n % 2 == 0) for n in range(20)]
        self.server.wait_for(lambda kv: kv["waiting"] == 20)
        for leaver in leavers:
            leaver.socket.close()
        self.server.wait_for(lambda kv: kv["waiting"] == 0)
        live = self.ask_for("the live one", 3)
        self.server.wait_for(lambda kv: kv["waiting"] == 1)
        endless.socket.close()
        status, said = live.reply()
        self.assertEqual(status, 200)
        after = self.server.wait_until_idle()
        grown = after["prompt_tokens"] - before["prompt_tokens"]
        self.assertEqual(grown, json.loads(said)["usage"]["prompt_tokens"])
        self.assertEqual(self.server.ask("/kv")[1]["generated_tokens"], after["generated_tokens"])
