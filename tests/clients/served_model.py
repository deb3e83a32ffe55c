# SPDX-License-Identifier: Apache-2.0
"""Starts the built server on a tiny model with random weights and gives tests its clients.

Owner: one test class. A server that a test class started must end well: stop() fails the class
otherwise.
"""

import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

try:
    import openai
except ImportError:  # tests over raw sockets do without
    openai = None

PATIENCE_SECONDS = (
    120  # that a step may take before it counts as hung, with sanitizers on a busy machine
)


def write_model(folder):
    """Writes the tiny model into a folder and returns its path."""
    writer = os.environ["SWIFTKV_MODEL_WRITER"]
    written = subprocess.run([writer, folder], check=True, stdout=subprocess.PIPE, text=True)
    return written.stdout.strip()


class Server:
    """A running `swiftkv serve`. Without `wait` it may still be loading."""

    def __init__(self, *arguments, folder=None, wait=True):
        self.folder = folder or tempfile.TemporaryDirectory()
        program = pathlib.Path(os.environ["SWIFTKV_PROGRAM"])
        code = program.read_bytes()
        self.sanitized = b"__asan_init" in code or b"__tsan_init" in code
        command = [program, "serve", "--json", "--verbose", "--port", "0"]
        command += ["-m", write_model(self.folder.name)]
        command += ["--linear", "ggml", "--kv-memory", "64MiB", "--threads", "1", *arguments]
        self.log = open(pathlib.Path(self.folder.name) / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, "SWIFTKV_CACHE_DIR": self.folder.name},
        )
        self.url = self.model = None
        if wait:
            self.wait_until_it_listens()

    def wait_until_it_listens(self):
        """Reads where the server listens."""
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.clean()
            raise AssertionError("the server did not start")
        told = json.loads(line)
        self.url, self.model = told["url"], told["model"]

    def logged(self):
        """Returns what the server wrote to standard error."""
        return pathlib.Path(self.log.name).read_text(encoding="utf-8")

    def client(self, key="unused", kind="OpenAI"):
        """Returns a client that never retries, so that every error is seen."""
        return getattr(openai, kind)(
            base_url=self.url + "/v1", api_key=key, max_retries=0, timeout=PATIENCE_SECONDS
        )

    def ask(self, path, body=None, key=None):
        """Returns (status, parsed reply) of a plain request: a POST where there is a body."""
        request = urllib.request.Request(self.url + path)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if key is not None:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:
                return reply.status, _parsed(reply)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, _parsed(refusal)

    def wait_for(self, condition, key=None):
        """Waits until what /kv says meets the condition, and returns it."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            _, kv = self.ask("/kv", key=key)
            if condition(kv):
                return kv
            time.sleep(0.005)
        raise AssertionError(f"this stayed as it is: {kv}")

    def wait_until_idle(self, key=None):
        """Waits until no request runs or waits, and returns what /kv says then."""
        return self.wait_for(lambda kv: kv["running"] == 0 and kv["waiting"] == 0, key)

    def wait_for_log(self, text):
        """Waits until the server has logged the text."""
        end = time.monotonic() + PATIENCE_SECONDS
        while text not in self.logged():
            if time.monotonic() > end:
                raise AssertionError(f"the log has no {text}")
            time.sleep(0.005)

    def stop(self):
        """Stops the server as an operator does; it must end well."""
        try:
            self.process.send_signal(signal.SIGTERM)
            status = self.process.wait(timeout=PATIENCE_SECONDS)
            if status != 0:
                raise AssertionError(f"the server ended with {status}: {self.logged()}")
        finally:
            self.clean()

    def clean(self):
        """Leaves nothing behind, whatever state the server is in."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()


def _parsed(reply):
    text = reply.read().decode()
    if reply.headers.get_content_type() == "application/json":
        return json.loads(text)
    return text


class ServedTest(unittest.TestCase):
    """A test case whose class has a server of its own, started with `arguments`."""

    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.arguments)
        cls.addClassCleanup(cls.server.stop)
        cls.model = cls.server.model
        if openai is not None:
            cls.client = cls.server.client()
            cls.addClassCleanup(cls.client.close)

    def chat(self, text="Say something.", **fields):
        """Returns a greedy chat completion of at most 12 tokens, unless the fields say otherwise."""
        chosen = {"temperature": 0, "max_completion_tokens": 12, **fields}
        chosen.setdefault("messages", [{"role": "user", "content": text}])
        return self.client.chat.completions.create(model=self.model, **chosen)

    def complete(self, prompt="Once", **fields):
        """Returns a greedy text completion of at most 12 tokens, unless the fields say otherwise."""
        chosen = {"temperature": 0, "max_tokens": 12, **fields}
        return self.client.completions.create(model=self.model, prompt=prompt, **chosen)
