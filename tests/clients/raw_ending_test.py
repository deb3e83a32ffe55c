# SPDX-License-Identifier: Apache-2.0
"""Tests how a server ends: idle, reading a long prompt, with streams under way, told twice, while it
loads; and that the next one starts in the same folder."""

import json
import signal
import unittest

from raw_socket import RawSocket, request
from served_model import PATIENCE_SECONDS, Server

LONG = json.dumps({"prompt": [5] * 100000, "max_tokens": 1}).encode()
ENDLESS = json.dumps(
    {"prompt": "a", "max_tokens": 100000, "ignore_eos": True, "stream": True}
).encode()


class EndingTest(unittest.TestCase):
    """Signals."""

    def serve(self, *arguments, **options):
        """Returns a server that this test ends."""
        server = Server(*arguments, **options)
        self.addCleanup(server.clean)
        return server

    def connect(self, server, body):
        """Returns a connection that has sent a request for a completion."""
        connection = RawSocket(server.url)
        self.addCleanup(connection.socket.close)
        connection.send(request(b"/v1/completions", body))
        return connection

    def assert_ends(self, server, *signals):
        """Sends the signals; the server must end well."""
        for number in signals:
            server.process.send_signal(number)
        self.assertEqual(server.process.wait(timeout=PATIENCE_SECONDS), 0, server.logged())

    def test_idle(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                self.assert_ends(self.serve(), number)

    def test_reading_a_long_prompt(self):
        server = self.serve("--drain-timeout", "0")
        reader = self.connect(server, LONG)
        server.wait_for(lambda kv: kv["running"] == 1)
        self.assert_ends(server, signal.SIGTERM)
        status, said = reader.reply()
        self.assertEqual(status, 503)
        self.assertEqual(json.loads(said)["error"]["type"], "service_unavailable_error")

    def test_twenty_streams_end_with_an_error_and_the_mark_of_the_end(self):
        server = self.serve("--drain-timeout", "1")
        streams = [self.connect(server, ENDLESS) for _ in range(20)]
        for stream in streams:
            self.assertIsNotNone(stream.read_until(b"data: "))
        self.assert_ends(server, signal.SIGTERM)
        for stream in streams:
            told = stream.read_until(b"data: [DONE]\n\n")
            self.assertIsNotNone(told)
            self.assertIn(b'{"error":', told)

    def test_told_twice(self):
        server = self.serve("--drain-timeout", "3600")
        stream = self.connect(server, ENDLESS)
        stream.read_until(b"data: ")
        self.assert_ends(server, signal.SIGTERM, signal.SIGINT)
        self.assertIsNotNone(stream.read_until(b"data: [DONE]\n\n"))

    def test_while_it_loads(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                server = Server(wait=False)
                self.addCleanup(server.clean)
                server.wait_for_log("options ")  # said before anything is loaded
                self.assert_ends(server, number)

    def test_the_next_server_starts_in_the_same_folder(self):
        first = self.serve()
        answer = first.ask("/v1/completions", {"prompt": "a", "max_tokens": 4, "temperature": 0})
        self.assert_ends(first, signal.SIGTERM)
        second = self.serve(folder=first.folder)
        again = second.ask("/v1/completions", {"prompt": "a", "max_tokens": 4, "temperature": 0})
        self.assertEqual(again[1]["choices"], answer[1]["choices"])
        self.assert_ends(second, signal.SIGTERM)
