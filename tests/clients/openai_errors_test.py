# SPDX-License-Identifier: Apache-2.0
"""Tests what goes wrong as OpenAI's own client tells it: its classes of exceptions, keys, a full queue,
and clients that leave."""

import pathlib
import tempfile
import threading

import openai

from served_model import ServedTest


class RefusalTest(ServedTest):
    """Requests that can never work."""

    def test_what_is_wrong_with_a_request_is_named_in_the_exception(self):
        wrong = {
            "temperature": {"temperature": -1},
            "top_p": {"top_p": 2},
            "max_completion_tokens": {"max_completion_tokens": 0},
            "messages": {"messages": []},
            "n": {"n": 100000},
            "logit_bias": {"logit_bias": {"no token": 1}},
            "top_logprobs": {"logprobs": True, "top_logprobs": 21},
            "stop": {"stop": [""]},
            "response_format": {"response_format": {"type": "yaml"}},
            "kv_quality": {"extra_body": {"kv_quality": "perfect"}},
        }
        for param, fields in wrong.items():
            for stream in (False, True):
                with self.subTest(param, stream=stream):
                    with self.assertRaises(openai.BadRequestError) as caught:
                        self.chat(stream=stream, **fields)
                    self.assertEqual(caught.exception.param, param)
                    self.assertEqual(caught.exception.type, "invalid_request_error")
                    self.assertIn(param, caught.exception.body["message"])

    def test_images_and_audio_are_refused_plainly(self):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
        with self.assertRaisesRegex(openai.BadRequestError, "images"):
            self.chat(messages=[{"role": "user", "content": [image]}])
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(modalities=["text", "audio"])
        self.assertEqual(caught.exception.param, "modalities")

    def test_a_prompt_longer_than_the_context_is_refused(self):
        with self.assertRaises(openai.BadRequestError):
            self.complete([5] * ((1 << 17) + 1))

    def test_another_model_is_not_found(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(
                model="gpt-4o", messages=[{"role": "user", "content": "Hello"}]
            )
        self.assertEqual(caught.exception.code, "model_not_found")
        self.assertEqual(caught.exception.param, "model")

    def test_what_is_not_served_is_not_found(self):
        for call in (
            lambda: self.client.embeddings.create(model=self.model, input="text"),
            lambda: self.client.images.generate(prompt="a ball"),
            lambda: self.client.moderations.create(input="text"),
        ):
            with self.assertRaises(openai.NotFoundError):
                call()


class KeyTest(ServedTest):
    """A server with keys, one of them in a file."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        keys = pathlib.Path(folder.name) / "keys"
        keys.write_text("# of clients\nsecond\n", encoding="utf-8")
        cls.arguments = ("--api-key", "first", "--api-key-file", str(keys))
        cls.arguments += ("--admin-key", "operator")
        super().setUpClass()

    def test_a_key_lets_in_and_any_other_does_not(self):
        for key in ("first", "second"):
            with self.server.client(key) as client:
                self.assertEqual(client.models.list().data[0].id, self.model)
        for key in ("third", "firs", "operator"):
            with self.server.client(key) as client:
                with self.assertRaises(openai.AuthenticationError) as caught:
                    client.models.list()
                self.assertEqual(caught.exception.code, "invalid_api_key")

    def test_keys_are_tenants_who_do_not_find_prompts_of_each_other(self):
        words = "what one tenant asks is nothing that another may learn " * 3
        cached = []
        for key in ("first", "second", "first"):
            with self.server.client(key) as client:
                reply = client.completions.create(model=self.model, prompt=words, max_tokens=1)
            cached.append(reply.usage.prompt_tokens_details.cached_tokens)
        self.assertEqual(cached[:2], [0, 0])
        self.assertGreater(cached[2], 0)

    def test_routes_of_operators_take_the_admin_key_only(self):
        self.assertEqual(self.server.ask("/kv", key="operator")[0], 200)
        for key in (None, "first"):
            self.assertEqual(self.server.ask("/kv", key=key)[0], 401)

    def test_health_needs_no_key(self):
        self.assertEqual(self.server.ask("/health")[0], 200)


class FullServerTest(ServedTest):
    """A server with one place and a queue of one."""

    arguments = ("--max-seqs", "1", "--queue", "1")

    def stream_without_end(self):
        """Returns a stream that only its reader can end."""
        stream = self.complete(
            max_tokens=100000, stream=True, extra_body={"ignore_eos": True}, timeout=600
        )
        next(iter(stream))
        return stream

    def test_a_stream_that_is_closed_ends_its_request(self):
        with self.stream_without_end():
            self.assertEqual(self.server.ask("/kv")[1]["running"], 1)
        kv = self.server.wait_until_idle()
        self.assertEqual((kv["live_tokens"], kv["bytes"]["live_private"]), (0, 0))

    def test_a_client_that_gives_up_ends_its_request(self):
        with self.assertRaises(openai.APITimeoutError):
            self.complete(max_tokens=100000, extra_body={"ignore_eos": True}, timeout=0.2)
        self.server.wait_until_idle()

    def test_a_full_queue_is_a_rate_limit(self):
        first = self.stream_without_end()
        waiting = threading.Thread(target=lambda: self.complete(max_tokens=1))
        waiting.start()
        self.server.wait_for(lambda kv: kv["waiting"] == 1)
        with self.assertRaises(openai.RateLimitError) as caught:
            self.complete(max_tokens=1)
        self.assertEqual(caught.exception.code, "rate_limit_exceeded")
        self.assertGreater(int(caught.exception.response.headers["retry-after"]), 0)
        first.close()
        waiting.join()
        self.server.wait_until_idle()
