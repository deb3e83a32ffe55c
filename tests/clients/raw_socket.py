# SPDX-License-Identifier: Apache-2.0
"""Speaks raw bytes to a server, as clients with no library between, or with bad intentions, do."""

import contextlib
import json
import socket
import urllib.parse

from served_model import PATIENCE_SECONDS, ServedTest


class RawSocket:
    """A connection; used as a context it closes at its end. `receive_bytes`: what the kernel keeps of
    what is not read, about; 0: as the system has it."""

    def __init__(self, url, receive_bytes=0):
        place = urllib.parse.urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE_SECONDS)
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect((place.hostname, place.port))
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """Sends bytes; returns False once the server no longer takes them."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def read_until(self, mark):
        """Returns what came up to and with `mark`, or None where the server ends before."""
        while mark not in self.received:
            data = b""
            with contextlib.suppress(ConnectionError):
                data = self.socket.recv(1 << 16)
            if not data:
                return None
            self.received += data
        end = self.received.index(mark) + len(mark)
        found, self.received = self.received[:end], self.received[end:]
        return found

    def reply(self):
        """Returns (status, body) of a reply with a length; (0, b"") where the server ends before."""
        head = self.read_until(b"\r\n\r\n")
        if head is None:
            return 0, b""
        length = 0
        for line in head.split(b"\r\n")[1:]:
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        while len(self.received) < length:
            data = self.socket.recv(1 << 16)
            if not data:
                return 0, b""
            self.received += data
        body, self.received = self.received[:length], self.received[length:]
        return int(head.split(b" ")[1]), body

    def ends(self):
        """Whether the server closes, whatever it still says."""
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(1 << 16):
                pass
        return True


def request(path, body=None, headers=b"", method=None, version=b"HTTP/1.1"):
    """Returns the bytes of a request; path, headers and body are bytes too."""
    method = method or (b"GET" if body is None else b"POST")
    length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
    return b"%s %s %s\r\nHost: test\r\n%s%s\r\n%s" % (
        method,
        path,
        version,
        headers,
        length,
        body or b"",
    )


class RawTest(ServedTest):
    """A test case whose server must be alive after every test: the same process, the same answer to
    the same question, nothing left behind, and no memory that grew."""

    most_growth_bytes = 64 << 20

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.answer = cls.probe()

    @classmethod
    def probe(cls):
        """Returns the answer to the question."""
        body = {"prompt": "the sand", "max_tokens": 4, "temperature": 0}
        status, told = cls.server.ask("/v1/completions", body)
        return status, told["choices"][0]["text"]

    @classmethod
    def resident_bytes(cls):
        """Returns the server's resident memory."""
        with open(f"/proc/{cls.server.process.pid}/statm", encoding="ascii") as counts:
            return int(counts.read().split()[1]) * 4096

    def setUp(self):
        self.resident_before = self.resident_bytes()

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), self.server.logged())
        self.assertEqual(self.probe(), self.answer)
        self.assertEqual(self.server.wait_until_idle()["live_tokens"], 0)
        if not self.server.sanitized:
            growth = self.resident_bytes() - self.resident_before
            self.assertLess(growth, self.most_growth_bytes)

    def connect(self):
        """Returns a new connection."""
        return RawSocket(self.server.url)

    def ask_raw(self, data):
        """Returns (status, body) of the first reply to bytes on a connection of their own."""
        with self.connect() as connection:
            connection.send(data)
            return connection.reply()

    def assert_refused(self, data, statuses):
        """Expects one of the statuses, with an error object, and returns its message."""
        status, body = self.ask_raw(data)
        self.assertIn(status, statuses, body[:200])
        error = json.loads(body)["error"]
        self.assertIsInstance(error["message"], str)
        self.assertIsInstance(error["type"], str)
        self.assertLess(len(body), 4096)
        return error["message"]
