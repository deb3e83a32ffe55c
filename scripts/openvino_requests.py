#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures whole requests with OpenVINO GenAI's pipeline on a GGUF and prints one JSON object;
peer_serve.py runs it with the packages' folder in PYTHONPATH.

Usage: openvino_requests.py GGUF THREADS KV_PRECISION CLIENTS COMMON OWN NEW ALONE

KV_PRECISION is f16, u8 or default. CLIENTS requests of COMMON + OWN tokens are one batch with NEW
tokens each; one client generates ALONE tokens. Prefix caching is on, as a server would have it.
"""

import itertools
import json
import statistics
import sys
import time

import numpy
import openvino
import openvino_genai

CACHE_GIB = 2
STEP_TOKENS = 8192


def part(count, salt):
    """Returns so many token ids, others for each salt."""
    return ((numpy.arange(count, dtype=numpy.int64) + 1) * (salt * 2 + 37) + salt * 7919) % 40000 + 100


def inputs(rows):
    """Returns prompts of one length as the pipeline takes them."""
    ids = numpy.stack(rows)
    return openvino_genai.TokenizedInputs(
        openvino.Tensor(ids), openvino.Tensor(numpy.ones(ids.shape, dtype=numpy.int64))
    )


class Pipeline:
    """The pipeline, and salts that were not used yet."""

    def __init__(self, path, threads, precision):
        properties = {"INFERENCE_NUM_THREADS": threads}
        if precision != "default":
            properties["KV_CACHE_PRECISION"] = getattr(openvino.Type, precision)
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GIB
        scheduler.max_num_batched_tokens = STEP_TOKENS
        scheduler.enable_prefix_caching = True
        self.pipeline = openvino_genai.LLMPipeline(
            path, "CPU", scheduler_config=scheduler, **properties
        )
        self.salts = itertools.count(1)

    def prompts(self, count, shared, own):
        """Returns prompts of `shared` equal tokens and `own` others."""
        prefix = part(shared, next(self.salts))
        return [numpy.concatenate([prefix, part(own, next(self.salts))]) for _ in range(count)]

    def generate(self, prompts, new_tokens):
        """Returns the seconds of one batch, and of a single prompt its time to first token and per
        token, in seconds."""
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = new_tokens
        config.ignore_eos = True
        config.do_sample = False
        batch = inputs(prompts)
        start = time.perf_counter()
        metrics = self.pipeline.generate(batch, config).perf_metrics
        seconds = time.perf_counter() - start
        per_token = metrics.get_tpot().mean / 1e3 if new_tokens > 1 else None
        return seconds, metrics.get_ttft().mean / 1e3, per_token


def measure(pipeline, clients, common, own, new, alone):
    """Returns [[metric, tokens, rate], ...] as peer_serve.py has them."""
    length = common + own
    pipeline.generate(pipeline.prompts(clients, 0, own), 8)  # compiles what is compiled then
    alike = pipeline.generate(pipeline.prompts(clients, common, own), new)[0]
    unlike = pipeline.generate(pipeline.prompts(clients, 0, length), new)[0]
    one = [pipeline.generate(pipeline.prompts(1, 0, own), alone)[2] for _ in range(3)]
    cold = [pipeline.generate(pipeline.prompts(1, 0, length), 1)[1] for _ in range(3)]
    known = pipeline.prompts(6, common, own)
    pipeline.generate(known[:1], 1)
    warm = [pipeline.generate([prompt], 1)[1] for prompt in known[1:]]
    return [
        ["served_alike", common, clients * new / alike],
        ["served_unlike", length, clients * new / unlike],
        ["served_one", alone, 1 / statistics.median(one)],
        ["served_cold", length, 1 / statistics.median(cold)],
        ["served_warm", common, 1 / statistics.median(warm)],
    ]


def main():
    """Prints {"version": ..., "figures": [[metric, tokens, rate], ...]}."""
    path, threads, precision, *sizes = sys.argv[1:]
    pipeline = Pipeline(path, int(threads), precision)
    figures = measure(pipeline, *(int(size) for size in sizes))
    print(json.dumps({"version": openvino_genai.__version__, "figures": figures}))


if __name__ == "__main__":
    main()
