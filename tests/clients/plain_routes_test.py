# SPDX-License-Identifier: Apache-2.0
"""Tests the routes that OpenAI's client does not know, over plain HTTP."""

import http.client

from served_model import ServedTest


class PlainRoutesTest(ServedTest):
    """Routes beside the OpenAI API."""

    def test_health_and_version_answer(self):
        self.assertEqual(self.server.ask("/health"), (200, {"status": "ok"}))
        status, told = self.server.ask("/version")
        self.assertEqual(status, 200)
        self.assertRegex(told["version"], r"^\d+\.\d+\.\d+")

    def test_tokens_become_the_text_that_they_came_from(self):
        for text in ("", "the sand", "naïve 🙂 日本", "<|im_start|>"):
            for special in (False, True):
                with self.subTest(text, special=special):
                    body = {"prompt": text, "add_special_tokens": special}
                    _, told = self.server.ask("/tokenize", body)
                    self.assertEqual(told["count"], len(told["tokens"]))
                    _, back = self.server.ask("/detokenize", {"tokens": told["tokens"]})
                    self.assertEqual(back["prompt"], text)

    def test_control_tokens_are_read_only_where_they_are_asked_for(self):
        body = {"prompt": "<|im_end|>"}
        self.assertEqual(self.server.ask("/tokenize", body)[1]["count"], 1)
        body["add_special_tokens"] = False
        self.assertGreater(self.server.ask("/tokenize", body)[1]["count"], 1)

    def test_the_balance_of_the_cache_adds_up(self):
        self.complete("words for the balance " * 8)
        kv = self.server.wait_until_idle()
        parts = kv["bytes"]
        held = parts["live_private"] + parts["live_shared"] + parts["cached"] + parts["free"]
        self.assertEqual(held + parts["metadata"], parts["mapped"])
        self.assertEqual(parts["live_private"] + parts["live_shared"], 0)
        self.assertGreater(parts["cached"], 0)
        self.assertLessEqual(parts["mapped"], parts["limit"])

    def test_prefixes_that_are_found_are_counted(self):
        words = "words that will come a second time, and be found " * 3
        self.complete(words)
        before = self.server.wait_until_idle()["prefixes"]
        cached = self.complete(words).usage.prompt_tokens_details.cached_tokens
        after = self.server.wait_until_idle()["prefixes"]
        self.assertEqual(after["hit_tokens"] - before["hit_tokens"], cached)

    def metrics(self):
        """Returns the samples of /metrics by name, for those of one sample each."""
        status, text = self.server.ask("/metrics")
        self.assertEqual(status, 200)
        rows = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        return {name.partition("{")[0]: float(value) for name, value in rows}

    def test_metrics_count_what_replies_say(self):
        words = "words that are told twice, so that some are in the cache " * 2
        self.complete(words)
        self.server.wait_until_idle()
        before = self.metrics()
        usage = self.complete(words).usage
        self.server.wait_until_idle()
        after = self.metrics()
        for name, count in (
            ("vllm:prompt_tokens_total", usage.prompt_tokens),
            ("vllm:prompt_tokens_cached_total", usage.prompt_tokens_details.cached_tokens),
            ("vllm:generation_tokens_total", usage.completion_tokens),
            ("vllm:e2e_request_latency_seconds_count", 1),
        ):
            self.assertEqual(after[name] - before[name], count, name)
        self.assertEqual(after["vllm:num_requests_running"], 0)

    def test_what_is_not_there_and_other_methods_are_errors_in_json(self):
        status, told = self.server.ask("/nowhere")
        self.assertEqual((status, told["error"]["code"]), (404, "not_found"))
        status, told = self.server.ask("/v1/completions")
        self.assertEqual((status, told["error"]["code"]), (405, "method_not_allowed"))
        status, told = self.server.ask("/tokenize", {"prompt": 7})
        self.assertEqual((status, told["error"]["param"]), (400, "prompt"))

    def test_one_connection_serves_many_requests(self):
        connection = http.client.HTTPConnection(self.server.url.removeprefix("http://"))
        for _ in range(3):
            connection.request("GET", "/health")
            socket = connection.sock
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
            self.assertIs(connection.sock, socket)
        connection.close()
