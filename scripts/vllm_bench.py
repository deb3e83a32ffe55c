#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs vLLM's engine for peer_vllm.py, inside vLLM's own environment: reads one JSON object a line,
{"prompts": [[token ids], ...], "new": tokens}, and answers each with one line.

Usage: vllm_bench.py MODEL_FOLDER

An answer says when every prompt had its first token, how long the rest took and how many tokens
that were. The engine lives in this process, so that nothing spins between requests. Its log, which
it writes to standard output, goes to standard error.
"""

import json
import os
import sys
import time

MOST_TOKENS = 8192  # of a context, and of one step: prompts of a batch are computed together


def open_engine(folder):
    """Returns the engine, its graph compiled."""
    from vllm import LLM  # pylint: disable=import-error,import-outside-toplevel

    model = LLM(
        model=folder,
        skip_tokenizer_init=True,
        dtype="bfloat16",
        max_model_len=MOST_TOKENS,
        max_num_batched_tokens=MOST_TOKENS,
        max_num_seqs=64,
        enable_prefix_caching=True,
    )
    return model.llm_engine


def generate(engine, prompts, new_tokens):
    """Returns the answer to one request: seconds, and the tokens of every prompt."""
    from vllm import SamplingParams  # pylint: disable=import-error,import-outside-toplevel

    sampling = SamplingParams(
        temperature=0, max_tokens=new_tokens, ignore_eos=True, detokenize=False
    )
    start = time.perf_counter()
    for number, ids in enumerate(prompts):
        engine.add_request(str(number), {"prompt_token_ids": ids}, sampling)
    tokens, first, count_then = {}, None, 0
    while engine.has_unfinished_requests():
        for output in engine.step():
            tokens[output.request_id] = list(output.outputs[0].token_ids)
        if first is None and len(tokens) == len(prompts):
            first = time.perf_counter()
            count_then = sum(len(ids) for ids in tokens.values())
    end = time.perf_counter()
    return {
        "prompt_seconds": first - start,
        "decode_seconds": end - first,
        "decode_tokens": sum(len(ids) for ids in tokens.values()) - count_then,
        "tokens": [tokens[str(number)] for number in range(len(prompts))],
    }


def main():
    """Answers until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine = open_engine(sys.argv[1])
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = generate(engine, request["prompts"], request["new"])
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
