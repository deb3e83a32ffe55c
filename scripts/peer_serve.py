# SPDX-License-Identifier: Apache-2.0
"""Measures servers as their clients see them: SwiftKV's, llama.cpp's and vLLM's are driven by
`swiftkv bench serve`, OpenVINO GenAI's pipeline, which has no server of its own on PyPI, by
openvino_requests.py in its own process.

Figures are {(setting, metric, tokens): rate}, more is better. `served_alike` and `served_unlike`:
tokens a second of all replies, of so many clients that ask at once, with a prompt that they share
but for a few tokens, and with prompts of the same length of their own; from the first request to
the last token. `served_one`: tokens a second of one client after its first one. `served_cold` and
`served_warm`: first tokens a second (the inverse of the time to the first token) of one client whose
prompt the server has never seen, and has seen but for its last few tokens.
"""

import itertools
import json
import os
import pathlib
import sys

from peer_engines import (
    EXACT_CACHE,
    TIMEOUT_SECONDS,
    Engine,
    PeerFailed,
    install_openvino,
    json_lines,
    quantized,
    run,
)
from peer_process import free_port, serving
from peer_vllm import VERSION as VLLM_VERSION
from peer_vllm import converted, environment, install

LOAD_SECONDS = 120
COMPILE_SECONDS = 900  # vLLM compiles its graph when it starts
# Name, slots, flash attention, whether the weights are rewritten as F16. A busy slot's prefix is
# never shared, so with many clients few slots compute it less often and decode fewer at a time.
LLAMA_SERVERS = (
    ("f16, fa off, 16 slots", 16, 0, False),
    ("f16, fa on, 16 slots", 16, 1, False),
    ("f16, fa on, 4 slots", 4, 1, False),
    ("f16, fa on, 1 slot", 1, 1, False),
    ("f16, fa on, 1 slot, F16 weights", 1, 1, True),
)


class Drive:
    """Drives one server. Every load has a seed of its own, so that nothing is found that an earlier
    one left."""

    def __init__(self, program, seeds, address):
        self.program, self.seeds, self.address = program, seeds, address

    def load(self, clients, requests, own, new, *flags):
        """Returns what `bench serve` reports; PeerFailed where a request failed."""
        command = [self.program, "bench", "serve", self.address, "--json", "--ignore-eos"]
        command += ["--timeout", TIMEOUT_SECONDS, "--seed", next(self.seeds)]
        command += ["--clients", clients, "--requests", requests]
        command += ["--own-tokens", own, "--output-tokens", new]
        report = json.loads(run([*command, *flags]))
        if report["completed"] < requests:
            raise PeerFailed(f"requests failed: {json.dumps(report['swiftkv']['failures'])[:200]}")
        return report

    def figures(self, work):
        """Returns {(metric, tokens): rate}."""
        unique = ("--workload", "unique", "--prefix-tokens")
        shared = ("--workload", "shared", "--prefix-tokens", work.common)
        length, clients = work.common + work.own, work.served
        self.load(clients, clients, work.own, 8, *unique, 0)  # whatever is made at the first use
        alike = self.load(clients, clients, work.own, work.new, *shared)
        unlike = self.load(clients, clients, work.own, work.new, *unique, work.common)
        one = self.load(1, 3, work.own, work.alone, *unique, 0)
        cold = self.load(1, 3, work.own, 1, *unique, work.common)
        warm = self.load(1, 5, work.own, 1, *shared, "--warmup", 1, "--warm-prefix")
        return {
            ("served_alike", work.common): alike["output_throughput"],
            ("served_unlike", length): unlike["output_throughput"],
            ("served_one", work.alone): 1e3 / one["median_tpot_ms"],
            ("served_cold", length): 1e3 / cold["median_ttft_ms"],
            ("served_warm", work.common): 1e3 / warm["median_ttft_ms"],
        }


class Served(Engine):
    """What the servers share: one is started for each job and ends with it."""

    name = version = "unknown"
    settings = ()

    def __init__(self, program):
        self.program = program
        self.seeds = itertools.count(1)

    def jobs(self):
        """Returns the names of the jobs."""
        return tuple(self.settings)

    def start(self, job, work):
        """Returns a context that yields the address of a running server."""
        raise NotImplementedError

    def measure(self, job, work):
        """Returns the figures of one setting."""
        with self.start(job, work) as address:
            figures = Drive(self.program, self.seeds, address).figures(work)
        return {(job, *column): rate for column, rate in figures.items()}


class SwiftKvServed(Served):
    """`swiftkv serve`; one job for each format of the cache."""

    name = "SwiftKV"

    def __init__(self, program, formats):
        super().__init__(program)
        self.version = run([program, "--version"]).split()[-1]
        self.settings = ("f16", "int8") if formats == "all" else tuple(formats.split(","))

    def start(self, job, work):
        """Returns a context that yields the address of a running server."""
        port = free_port()
        command = [self.program, "serve", "-m", work.model, "-t", work.threads, "--port", port]
        return serving([*command, "--kv", job], port, LOAD_SECONDS)


class LlamaServed(Served):
    """llama-server; one job for each setting."""

    name = "llama-server"

    def __init__(self, program, programs, setting):
        super().__init__(program)
        self.programs = programs
        self.version = "of the pinned source"
        rows = {row[0]: row[1:] for row in LLAMA_SERVERS}
        # A setting of llama-bench names the cache: all servers of that one.
        self.settings = {
            name: row for name, row in rows.items() if setting == "all" or name.startswith(setting)
        }
        if not self.settings:
            raise PeerFailed(f"its settings begin with {EXACT_CACHE}, not: {setting}")
        if not (programs / "llama-server").is_file():
            raise PeerFailed(f"no llama-server in {programs}; `make peers` builds it")

    def start(self, job, work):
        """Returns a context that yields the address of a running server."""
        slots, flash, rewritten = self.settings[job]
        weights = quantized(self.programs, work.model, "F16") if rewritten else work.model
        context = work.common + work.own + max(work.new, work.alone) + 64  # of each slot
        port = free_port()
        command = [self.programs / "llama-server", "-m", weights, "-t", work.threads]
        command += ["--port", port, "-np", slots, "-c", slots * context]
        command += ["-fa", "on" if flash else "off"]
        return serving(command, port, LOAD_SECONDS)


class VllmServed(Served):
    """vLLM's OpenAI server on the model as bf16, prefix caching on; one job. It has no tokenizer and
    is sent token ids."""

    name = "vLLM, served"
    settings = ("bf16",)

    def __init__(self, program, programs, model):
        super().__init__(program)
        self.version = VLLM_VERSION
        self.folder = install()
        self.model = converted(programs, model)

    def start(self, job, work):
        """Returns a context that yields the address of a running server."""
        port = free_port()
        tokens = 8192  # of a context, and of one step
        command = [self.folder / "bin" / "python", "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", self.model, "--served-model-name", "model", "--skip-tokenizer-init"]
        command += ["--host", "127.0.0.1", "--port", port, "--dtype", "bfloat16"]
        command += ["--max-model-len", tokens, "--max-num-batched-tokens", tokens]
        command += ["--max-num-seqs", 64, "--enable-prefix-caching"]
        command += ["--enable-prompt-tokens-details"]
        processors = sorted(os.sched_getaffinity(0))[: work.threads]
        variables = {
            **environment(self.folder, work.threads),
            # The engine is a process of its own beside the server; by default it would leave one of
            # the cores to the latter.
            "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
            "VLLM_CPU_OMP_THREADS_BIND": ",".join(str(number) for number in processors),
        }
        return serving(command, port, COMPILE_SECONDS, variables)


class OpenVinoServed(Engine):
    """OpenVINO GenAI's pipeline with prefix caching, all requests of a load as one batch."""

    name = "OpenVINO GenAI"

    def __init__(self, programs, model):
        self.version = "pipeline"
        self.folder = install_openvino()
        self.model = quantized(programs, model, "Q4_0")

    def jobs(self):
        """Returns the names of the jobs: precisions of its cache."""
        return ("default", "f16")

    def measure(self, job, work):
        """Returns the figures of one precision."""
        script = pathlib.Path(__file__).with_name("openvino_requests.py")
        sizes = (work.served, work.common, work.own, work.new, work.alone)
        command = [sys.executable, script, self.model, work.threads, job, *sizes]
        printed = run(command, {"PYTHONPATH": str(self.folder)})
        rows = json_lines(printed)[-1]["figures"]
        return {(job, metric, tokens): rate for metric, tokens, rate in rows}
