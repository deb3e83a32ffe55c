# SPDX-License-Identifier: Apache-2.0
"""Tests requests whose framing is wrong, endless, enormous, slow or merely old."""

import json
import resource

from raw_socket import RawTest, request

MEGABYTE = 1 << 20
BODY = json.dumps({"prompt": "a", "max_tokens": 2, "temperature": 0}).encode()


class SizeTest(RawTest):
    """Requests that are too large."""

    def test_a_header_of_100_megabytes_is_refused_long_before_its_end(self):
        with self.connect() as connection:
            connection.send(b"GET /health HTTP/1.1\r\nX: ")
            sent = 0
            while sent < 100 and connection.send(b"a" * MEGABYTE):
                sent += 1
            self.assertLess(sent, 100)

    def test_a_hundred_thousand_headers_are_refused(self):
        headers = b"".join(b"H%d: v\r\n" % number for number in range(100000))
        self.assert_refused(request(b"/health", headers=headers), (431,))

    def test_a_path_of_a_megabyte_is_refused(self):
        self.assert_refused(request(b"/" + b"a" * MEGABYTE), (431,))

    def test_a_chunked_body_without_end_is_refused(self):
        with self.connect() as connection:
            connection.send(b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            sent = 0
            while sent < 1000 and connection.send(b"100000\r\n" + b"a" * MEGABYTE + b"\r\n"):
                sent += 1
            self.assertLess(sent, 1000)

    def test_chunks_of_one_byte_are_read_and_counted(self):
        body = BODY + b" " * 5000
        chunks = b"".join(b"1;note=x\r\n%c\r\n" % byte for byte in body)
        head = b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        status, said = self.ask_raw(head + chunks + b"0\r\nTrailer: x\r\n\r\n")
        self.assertEqual(status, 200, said)

    def test_chunks_that_lie_about_their_size_are_refused(self):
        head = b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        for size in (b"-1", b"zz", b"", b"0x2", b"ffffffffffffffffff"):
            with self.subTest(size):
                self.assert_refused(head + size + b"\r\n{}\r\n0\r\n\r\n", (400, 413))

    def test_lengths_that_are_none_or_two_are_refused(self):
        for length in (
            b"Content-Length: -1\r\n",
            b"Content-Length: 1e3\r\n",
            b"Content-Length: 99999999999999999999999\r\n",
            b"Content-Length: 2\r\nContent-Length: 3\r\n",
            b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        ):
            with self.subTest(length):
                data = b"POST /tokenize HTTP/1.1\r\nHost: a\r\n" + length + b"\r\n{}"
                self.assert_refused(data, (400, 413))

    def test_what_follows_a_body_is_the_next_request_and_nothing_else(self):
        with self.connect() as connection:
            short = request(b"/v1/completions", BODY)[:-1] + b"}}}}"  # three more than it says
            connection.send(short)
            self.assertEqual(connection.reply()[0], 200)
            self.assertEqual(connection.reply()[0], 400)
            self.assertTrue(connection.ends())


class OldAndOddTest(RawTest):
    """Requests that are right, or nearly."""

    def test_a_hundred_pipelined_requests_are_answered_in_their_order(self):
        with self.connect() as connection:
            texts = [f"text {number}" for number in range(100)]
            bodies = [json.dumps({"prompt": text}).encode() for text in texts]
            connection.send(b"".join(request(b"/tokenize", body) for body in bodies))
            for text in texts:
                status, said = connection.reply()
                told = self.server.ask("/tokenize", {"prompt": text})[1]
                self.assertEqual((status, json.loads(said)), (200, told))

    def test_a_client_of_http_1_0_gets_a_reply_and_the_end_of_the_connection(self):
        with self.connect() as connection:
            connection.send(request(b"/v1/completions", BODY, version=b"HTTP/1.0"))
            self.assertEqual(connection.reply()[0], 200)
            self.assertTrue(connection.ends())

    def test_a_client_that_waits_for_a_go_gets_one_or_a_refusal(self):
        wait = b"Expect: 100-continue\r\n"
        with self.connect() as connection:
            connection.send(request(b"/v1/completions", BODY, wait).removesuffix(BODY))
            self.assertEqual(connection.reply()[0], 100)
            connection.send(BODY)
            self.assertEqual(connection.reply()[0], 200)
        large = b"POST /tokenize HTTP/1.1\r\n" + wait + b"Content-Length: 9000000000\r\n\r\n"
        self.assert_refused(large, (413,))

    def test_other_protocols_are_refused(self):
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100 + b"\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
            b"\x00" * 1000 + b"\r\n\r\n",
            b"GET /health\r\n\r\n",
            b"GET  /health HTTP/1.1\r\n\r\n",
            b"GET /health HTTP/1.1\r\n folded: x\r\n\r\n",
            b"GET /health HTTP/1.1\r\nA : x\r\n\r\n",
            b"GET /health HTTP/1.1\r\nA\r\n\r\n",
        ):
            with self.subTest(data[:20]):
                self.assert_refused(data, (400,))

    def test_an_upgrade_is_not_taken(self):
        upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        status, said = self.ask_raw(request(b"/health", headers=upgrade))
        self.assertEqual((status, json.loads(said)), (200, {"status": "ok"}))


class SlowTest(RawTest):
    """A thousand clients that send something and then wait."""

    arguments = ("--max-connections", "1100", "--header-timeout", "2", "--body-timeout", "2")

    def test_a_thousand_that_drip_are_told_so_and_others_are_served_meanwhile(self):
        limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(limit, 4096)), most))
        drips = [self.connect() for _ in range(1000)]
        beginnings = (b"G", b"GET /health HTTP/1.1\r\nX: ", request(b"/tokenize", BODY)[:-2])
        try:
            for number, drip in enumerate(drips):
                drip.send(beginnings[number % 3])
            self.assertEqual(self.probe(), self.answer)
            for drip in drips:
                drip.send(b"E")  # a byte more gains no time
            self.assertEqual([drip.reply()[0] for drip in drips], [408] * 1000)
        finally:
            for drip in drips:
                drip.socket.close()
