#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures OpenVINO GenAI on a GGUF and prints one JSON object; compare_peers.py runs it with the
packages' folder in PYTHONPATH.

Usage: openvino_bench.py GGUF THREADS KV_PRECISION PREFILL DECODE DEPTHS PROMPTS

KV_PRECISION is f16, u8 or default; DEPTHS and PROMPTS have commas between and may be empty. Every
prompt has tokens of its own, so that nothing is taken from a cache of prefixes.
"""

import json
import sys

import numpy
import openvino
import openvino_genai


def tokens(count, salt):
    """Returns a prompt as the pipeline takes it."""
    ids = (numpy.arange(count, dtype=numpy.int64) * 37 + salt * 7919) % 40000 + 100
    mask = numpy.ones((1, count), dtype=numpy.int64)
    return openvino_genai.TokenizedInputs(
        openvino.Tensor(ids.reshape(1, count).copy()), openvino.Tensor(mask)
    )


def numbers(text):
    """Returns the numbers of a list with commas."""
    return [int(part) for part in text.split(",") if part]


def generate(pipeline, count, new_tokens, salt):
    """Returns tokens per second of the prompt and of what follows it."""
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = new_tokens
    config.ignore_eos = True
    config.do_sample = False
    metrics = pipeline.generate(tokens(count, salt), config).perf_metrics
    prompt = count / metrics.get_ttft().mean * 1e3
    decode = 1e3 / metrics.get_tpot().mean if new_tokens > 1 else None
    return prompt, decode


def main():
    """Prints {"version": ..., "figures": [[metric, depth, tokens per second], ...]}."""
    path, threads, precision, prefill, decode, depths, prompts = sys.argv[1:]
    properties = {"INFERENCE_NUM_THREADS": int(threads)}
    if precision != "default":
        properties["KV_CACHE_PRECISION"] = getattr(openvino.Type, precision)
    pipeline = openvino_genai.LLMPipeline(path, "CPU", **properties)
    generate(pipeline, 64, 8, salt=1)  # compiles what is compiled at the first use
    figures = []
    if depths:
        figures.append(["prefill", 0, generate(pipeline, int(prefill), 1, salt=2)[0]])
    for number, depth in enumerate(numbers(depths)):
        rate = generate(pipeline, max(depth, 16), int(decode) + 1, salt=3 + number)[1]
        figures.append(["decode", depth, rate])
    for number, count in enumerate(numbers(prompts)):
        figures.append(["prompt", count, generate(pipeline, count, 1, salt=99 + number)[0]])
    print(json.dumps({"version": openvino_genai.__version__, "figures": figures}))


if __name__ == "__main__":
    main()
