# SPDX-License-Identifier: Apache-2.0
"""Tests bodies that are no JSON, hardly JSON or hostile JSON, and text that spoils its own error."""

import json

from raw_socket import RawTest, request

POSTS = (b"/v1/completions", b"/v1/chat/completions", b"/tokenize", b"/detokenize")


class BodiesTest(RawTest):
    """Bodies."""

    def test_what_is_no_json_is_refused_on_every_route(self):
        bodies = {
            "empty": b"",
            "colon": b'{"prompt": : "a"}',
            "cut": b'{"prompt": "a", "max_tok',
            "open brackets": b"[" * (10 << 20),
            "nested": b'{"prompt":' + b"[" * 100000 + b"]" * 100000 + b"}",
            "no number": b'{"prompt": "a", "temperature": NaN}',
            "a number beyond all bounds": b'{"prompt": "a", "temperature": 1e999}',
            "GBK": '{"prompt": "你好"}'.encode("gbk"),
            "lone surrogate": b'{"prompt": "\\ud800"}',
            "surrogates in the wrong order": b'{"prompt": "\\udc00\\ud800"}',
            "overlong UTF-8": b'{"prompt": "\xc0\x80"}',
            "control character": b'{"prompt": "a\nb"}',
            "two objects": b"{}{}",
            "list": b"[]",
            "word": b"null",
            "comment": b'{"prompt": "a" /* b */}',
            "form": b"prompt=a&max_tokens=1",
        }
        for name, body in bodies.items():
            for path in POSTS:
                with self.subTest(name, path=path):
                    self.assert_refused(request(path, body), (400,))

    def test_json_with_odd_corners_is_read(self):
        for body in (
            b'\xef\xbb\xbf{"prompt": "a"}',
            b' \r\n\t{"prompt": "\\u0000"}\n',
            b'{"prompt": "\\ud83d\\ude42", "unknown": [1e308, -0.0, 12345678901234567890123]}',
            b'{"prompt": "' + b"\xf4\x8f\xbf\xbf" * 100 + b'"}',
        ):
            status, said = self.ask_raw(request(b"/tokenize", body))
            self.assertEqual(status, 200, said)
            self.assertGreater(json.loads(said)["count"], 0)

    def test_fields_of_wrong_types_are_refused_by_their_name(self):
        odd = ("word", -1, 1.5, 1e30, 1 << 64, True, [], [[]], [None], {}, {"a": {}})
        fields = {
            "prompt": (-1, 1.5, 1 << 64, True, [], [[]], [None], [-1], [1 << 31], {}, [1, "a"]),
            "max_tokens": odd,
            "temperature": ("1", [], {}, -1, 1e30, True),
            "stop": (-1, 1.5, True, [None], {}, ["x"] * 1000, "x" * 100000),
            "stream": ("true", 1, [], {}),
            "n": ("1", 0, -1, 1.5, 1 << 40),
            "logit_bias": ("x", 1, [1], {"a": 1}, {"-1": 1}, {"5": "x"}, {"99999999999": 1}),
            "logprobs": ("1", -1, 1.5, 1000, [], {}),
            "stop_token_ids": (1, "1", [-1], [1.5], [1 << 40], {}),
            "seed": ("1", 1.5, [], {}),
            "kv_format": (1, "f17", [], {}),
            "cache_salt": (1, [], {}),
        }
        for name, values in fields.items():
            for value in values:
                body = {"prompt": "a", "max_tokens": 1, name: value}
                with self.subTest(name, value=str(value)[:40]):
                    message = self.assert_refused(
                        request(b"/v1/completions", json.dumps(body).encode()), (400,)
                    )
                    self.assertIn(name, message)

    def test_messages_of_wrong_shapes_are_refused(self):
        for messages in (
            None,
            "hello",
            {},
            [],
            ["hello"],
            [{}],
            [{"role": "user"}],
            [{"role": 1, "content": "a"}],
            [{"role": "user", "content": 1}],
            [{"role": "user", "content": [1]}],
            [{"role": "user", "content": [{"type": "text"}]}],
            [{"role": "user", "content": [{"type": "video", "text": "a"}]}],
            [{"role": "user", "content": "a"}] * 100000,
        ):
            with self.subTest(str(messages)[:40]):
                body = json.dumps({"messages": messages, "max_tokens": 1}).encode()
                self.assert_refused(request(b"/v1/chat/completions", body), (400,))


class SpoiledErrorTest(RawTest):
    """Errors that quote what was sent."""

    def test_an_error_that_quotes_control_characters_is_json(self):
        for text in ("\x00\x01\x1b[31m\r\nX: y", "a\u2028b\ufffd", '"}],"x":{"', "é" * 5000):
            for name in ("model", "kv_format", "kv_quality"):
                with self.subTest(text[:10], name=name):
                    body = json.dumps({"prompt": "a", name: text}).encode()
                    self.assert_refused(request(b"/v1/completions", body), (400, 404))

    def test_bad_bytes_in_path_query_and_headers_make_no_bad_reply(self):
        for bad in (b"\xff\xfe", b"\xc0\x80", b"%00%0d%0a", b"\xed\xa0\x80", b"\x7f"):
            with self.subTest(bad):
                self.assert_refused(request(b"/" + bad), (400, 404))
                self.assert_refused(request(b"/nowhere?" + bad), (400, 404))
                self.assert_refused(request(b"/v1/models/" + bad), (400, 404))
                self.assert_refused(request(b"/" + bad * 1000), (400, 404))
                status, _ = self.ask_raw(request(b"/health", headers=b"X: " + bad + b"\r\n"))
                self.assertIn(status, (200, 400))
                self.assert_refused(request(b"/health", method=b"G" + bad), (400, 405))

    def test_no_line_of_the_log_is_made_by_a_client(self):
        self.ask_raw(request(b"/%0a[error]forged"))
        self.ask_raw(request(b"/v1/completions", b'{"model": "\\n[error] forged"}'))
        self.assertNotIn("forged", self.server.logged())
