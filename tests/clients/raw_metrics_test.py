# SPDX-License-Identifier: Apache-2.0
"""Tests /metrics of a running server: what sockets do, who leaves, who may read, and that neither
metrics nor the log repeat what requests say."""

import json
import re
import signal

from raw_socket import RawTest, request
from served_model import PATIENCE_SECONDS, Server, ServedTest

SERIES = re.compile(r"^([a-z_:0-9]+)\{(.*)\} (\S+)$")


def scrape(server, key=None):
    """Returns {name: {labels beside the model's and the engine's: value}}."""
    status, text = server.ask("/metrics", key=key)
    assert status == 200, text
    metrics = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SERIES.match(line).groups()
        own = re.sub(r'^model_name="[^"]*",engine="0",?', "", labels)
        metrics.setdefault(name, {})[own] = float(value)
    return metrics


class MetricsTest(RawTest):
    """Counts of one server before and after."""

    def growth(self, before, name, labels=""):
        """Returns by how much a count has grown."""
        return scrape(self.server)[name][labels] - before[name][labels]

    def test_refused_requests_are_counted_by_reason(self):
        before = scrape(self.server)
        self.assert_refused(b"NONSENSE\r\n\r\n", {400})
        self.assert_refused(request(b"/v1/completions", b"{"), {400})
        self.assert_refused(request(b"/nowhere"), {404})
        self.assert_refused(request(b"/health", headers=b"A: %s\r\n" % (b"a" * 100000)), {431})
        endless = b"POST /tokenize HTTP/1.1\r\nContent-Length: 9000000000\r\n\r\n"
        self.assert_refused(endless, {413})
        expected = {"invalid": 2, "not_found": 1, "too_large": 2, "unauthorized": 0, "other": 0}
        for reason, count in expected.items():
            labels = f'reason="{reason}"'
            grown = self.growth(before, "swiftkv_requests_refused_total", labels)
            self.assertEqual(grown, count, reason)

    def test_connections_are_counted(self):
        before = scrape(self.server)
        with self.connect(), self.connect():
            self.assertGreaterEqual(scrape(self.server)["swiftkv_connections"][""], 3)
        self.assertGreaterEqual(self.growth(before, "swiftkv_connections_accepted_total"), 4)

    def test_a_client_that_leaves_counts_as_an_abort(self):
        before = scrape(self.server)
        body = {"prompt": "a", "max_tokens": 100000, "ignore_eos": True, "stream": True}
        with self.connect() as connection:
            connection.send(request(b"/v1/completions", json.dumps(body).encode()))
            self.assertIsNotNone(connection.read_until(b"data: "))
            self.server.wait_for(lambda kv: kv["running"] == 1)
            running = scrape(self.server)
            self.assertEqual(running["vllm:num_requests_running"][""], 1)
            self.assertGreater(running["vllm:kv_cache_usage_perc"][""], 0)
        self.server.wait_until_idle()
        ends = "vllm:request_success_total"
        self.assertEqual(self.growth(before, ends, 'finished_reason="abort"'), 1)
        self.assertEqual(self.growth(before, ends, 'finished_reason="error"'), 0)
        after = scrape(self.server)
        self.assertEqual(after["vllm:num_requests_running"][""], 0)
        self.assertEqual(after["vllm:kv_cache_usage_perc"][""], 0)

    def test_histograms_add_up_and_no_count_falls(self):
        before = scrape(self.server)
        self.server.ask("/v1/completions", {"prompt": "a b c", "max_tokens": 5, "n": 3})
        self.server.wait_until_idle()
        after = scrape(self.server)
        self.assertEqual(before.keys(), after.keys())
        for name, series in after.items():
            if name.endswith(("_total", "_bucket", "_count", "_sum")):
                for labels, value in series.items():
                    self.assertGreaterEqual(value, before[name][labels], name)
            if name.endswith("_bucket"):
                buckets = list(series.values())
                self.assertEqual(buckets, sorted(buckets), name)
                count = after[name.removesuffix("_bucket") + "_count"][""]
                self.assertEqual(series['le="+Inf"'], count, name)


class AccessTest(ServedTest):
    """A server with an operator's key."""

    arguments = ("--admin-key", "root", "--api-key", "one")

    def test_metrics_are_for_operators_only(self):
        self.assertEqual(self.server.ask("/metrics")[0], 401)
        self.assertEqual(self.server.ask("/metrics", key="one")[0], 401)
        refused = scrape(self.server, key="root")["swiftkv_requests_refused_total"]
        self.assertEqual(refused['reason="unauthorized"'], 2)

    def test_neither_metrics_nor_log_repeat_what_a_request_says(self):
        server = Server()
        self.addCleanup(server.clean)
        said = "unspeakable"
        body = {"prompt": said, "max_tokens": 2, "user": said, "cache_salt": said}
        server.ask("/v1/completions", body, key=said)
        server.ask(f"/{said}", body, key=said)
        server.ask("/v1/completions", {**body, "model": said})
        self.assertNotIn(said, server.ask("/metrics")[1])
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=PATIENCE_SECONDS), 0)
        log = server.logged()
        self.assertNotIn(said, log)
        self.assertIn("serving ", log)
        self.assertIn("served 1 requests", log)
