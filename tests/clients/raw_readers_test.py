# SPDX-License-Identifier: Apache-2.0
"""Tests clients that read a stream much more slowly than it is made: they wait for nobody but
themselves, and are dropped once they are too slow for the time that a write may take."""

import json
import threading

from raw_metrics_test import scrape
from raw_socket import RawSocket, RawTest, request
from served_model import PATIENCE_SECONDS

SECONDS_A_BYTE = 0.1
SMALL_BUFFER = 4096
# Events of some hundred bytes, without an end that anybody would live to see.
ENDLESS = json.dumps(
    {
        "prompt": "a",
        "max_tokens": 100000,
        "ignore_eos": True,
        "stream": True,
        "logprobs": 10,
        "temperature": 0,
    }
).encode()


class SlowReader(RawSocket):
    """A client that reads ten bytes a second, on a thread of its own, until the server drops it."""

    def __init__(self, url):
        super().__init__(url, SMALL_BUFFER)
        self.began = threading.Event()
        self.let_go = threading.Event()
        self.thread = threading.Thread(target=self.read_slowly)

    def __exit__(self, *_):
        self.let_go.set()
        self.thread.join()
        self.socket.close()

    def start(self):
        """Asks for the stream and waits for its first byte."""
        self.send(request(b"/v1/completions", ENDLESS))
        self.thread.start()
        self.began.wait(PATIENCE_SECONDS)

    def read_slowly(self):
        """Reads until nothing more comes, or nobody wants it to go on."""
        while not self.let_go.wait(SECONDS_A_BYTE):
            try:
                byte = self.socket.recv(1)
            except OSError:
                byte = b""
            if not byte:
                return
            self.received += byte
            self.began.set()


class SlowReaderTest(RawTest):
    """Readers of ten bytes a second beside one that reads what it gets."""

    arguments = ("--write-timeout", "1", "--drain-timeout", "3600")

    def test_readers_of_ten_bytes_a_second_are_paused_then_dropped_and_others_are_served(self):
        before = scrape(self.server)
        with SlowReader(self.server.url) as one, SlowReader(self.server.url) as other:
            one.start()
            other.start()
            body = {"prompt": "a", "max_tokens": 100, "temperature": 0, "ignore_eos": True}
            status, told = self.server.ask("/v1/completions", body)
            self.assertEqual((status, told["choices"][0]["finish_reason"]), (200, "length"))
            self.assertEqual(self.probe(), self.answer)
            self.server.wait_until_idle()  # neither stream has an end, so both were dropped
            for reader in (one, other):
                reader.let_go.set()
                reader.thread.join()
                self.assertIsNone(reader.read_until(b"[DONE]"))
        if not self.server.sanitized:  # else the time is over before so much is computed
            pauses = scrape(self.server)["swiftkv_stream_pauses_total"][""]
            self.assertGreaterEqual(pauses - before["swiftkv_stream_pauses_total"][""], 2)
