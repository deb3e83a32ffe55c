#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures SwiftKV beside llama.cpp, vLLM and OpenVINO GenAI: same model, same machine, in turn.

Usage: compare_peers.py [--short] [--phases LIST] [--quality] [options]; --help lists them

Engines take turns, round by round; a figure is the median of its rounds. The first round runs every
setting of every engine, later ones those that came within a quarter of their engine's best
somewhere. Prints Markdown; --out also keeps it, and everything as JSON. `--quality` compares what
formats of the cache lose instead (peer_quality.py).
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import sys

import build_llama
import fetch_models
import peer_quality
from peer_engines import LlamaCpp, LlamaCppF16, OpenVino, PeerFailed, SwiftKv, Work
from peer_serve import LlamaServed, OpenVinoServed, SwiftKvServed, VllmServed
from peer_vllm import Vllm
from setup_cache import cache_root, say

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEAR_BEST = 0.75  # of an engine's best figure: worth more rounds
METRICS = {
    "prefill": "prefill of {prefill} behind {tokens:,}",
    "decode": "decode behind {tokens:,}",
    "prompt": "prompt of {tokens:,}",
    "shared": "decode of {sharers} that share {tokens:,}",
    "batch": "decode of {streams} behind {tokens:,} each",
    "alike": "{requests} requests, {tokens:,} tokens shared, {own:,} own, {new} new",
    "unlike": "{requests} requests, {tokens:,} tokens, {new} new",
    "served_alike": "{served} clients, {tokens:,} tokens shared, {own:,} own, {new} new",
    "served_unlike": "{served} clients, {tokens:,} tokens, {new} new",
    "served_one": "one client, {tokens:,} new",
    "served_cold": "first tokens/s, {tokens:,} tokens never seen",
    "served_warm": "first tokens/s, {tokens:,} tokens seen, {own:,} new ones",
}
PHASES = ("depth", "prompt", "shared", "batch", "requests", "serve")
# Phases that the linear layers decide: where F16 weights and vLLM run.
LINEAR = {"prompt", "batch", "requests"}


def parse_arguments():
    """Returns the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--short", action="store_true", help="one round, depths 0 and 2,048, few settings")
    add("--quality", action="store_true", help="compare loss of cache formats, not speed")
    add("--bytes", type=int, default=48000, help="of prose for --quality, at least two windows")
    add("--model", type=pathlib.Path, help="GGUF (default: SWIFTKV_MODEL, else SmolLM2)")
    add("--swiftkv", type=pathlib.Path, default=ROOT / "build" / "swiftkv", help="our program")
    add("--peers", type=pathlib.Path, help="folder of llama.cpp's programs (default: make peers')")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--formats", help="our formats, with commas (default: all; with --short f16,int8)")
    add("--llama", default="all", metavar="SETTING", help="one of llama.cpp's settings")
    add("--phases", help=f"of {', '.join(PHASES)}, with commas (default: all; with --short depth)")
    add("--depths", help="tokens before what is measured (default: 0,2048,7000)")
    add("--prompt", default="512,1900,6500", metavar="LIST", help="tokens of whole prompts")
    add("--batch", type=int, default=8, help="sequences that share tokens and decode together")
    add("--shared", type=int, default=2048, help="tokens that they share")
    add("--streams", type=int, default=16, help="sequences, nothing shared, that decode together")
    add("--context", type=int, default=300, help="tokens of each of them")
    add("--requests", type=int, default=16, help="whole requests, submitted at once")
    add("--common", type=int, default=1900, help="tokens that their prompts share, or do not")
    add("--rounds", type=int, help="turns of each engine (default: 3)")
    add("--skip", default="", metavar="NAMES", help="of swiftkv, llama, llama_f16, openvino, vllm")
    add(
        "--have-peers",
        action="store_true",
        help="only tell by the exit status whether llama.cpp is built",
    )
    add("--out", type=pathlib.Path, metavar="DIR", help="also write peers.md and peers.json there")
    return parser.parse_args()


def peers_folder(given):
    """Returns where llama.cpp's programs are; nothing is built here."""
    if given:
        return given
    prefix = cache_root() / "peers" / build_llama.cache_key(*build_llama.compilers())
    return prefix / "bin"


def model_path(given):
    """Returns the model to measure."""
    name = os.environ.get("SWIFTKV_MODEL")
    if given or name:
        return given or pathlib.Path(name)
    return cache_root() / "models" / fetch_models.MODELS["smollm2"].file_name


def machine():
    """Returns a line on the processor and its memory."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
    found = [flag for flag in known if flags and flag in flags.group(1).split()]
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = name.group(1) if name else platform.machine()
    return f"{processor}, {os.cpu_count()} CPUs, {' '.join(found)}, {gib:.0f} GiB"


def numbers(text):
    """Returns the numbers of a list with commas."""
    return tuple(int(part) for part in text.split(","))


def chosen_phases(arguments):
    """Returns the set of what is measured."""
    phases = set(
        (arguments.phases or ("depth" if arguments.short else ",".join(PHASES))).split(",")
    )
    unknown = phases - set(PHASES)
    if unknown:
        raise PeerFailed(f"--phases takes {', '.join(PHASES)}, not {', '.join(sorted(unknown))}")
    return phases


def make_work(arguments, phases):
    """Returns what is measured, from the flags and the defaults of long and short runs."""
    depths = arguments.depths or ("0,2048" if arguments.short else "0,2048,7000")
    return Work(
        model=model_path(arguments.model),
        threads=arguments.threads,
        depths=numbers(depths) if "depth" in phases else (),
        prompts=numbers(arguments.prompt) if "prompt" in phases else (),
        sharers=arguments.batch if "shared" in phases else 0,
        shared=arguments.shared,
        streams=arguments.streams if "batch" in phases else 0,
        context=arguments.context,
        requests=arguments.requests if "requests" in phases else 0,
        common=arguments.common,
        served=arguments.requests if "serve" in phases else 0,
    )


def open_engines(arguments, phases, work):
    """Returns the engines that can be measured, and the reasons of the others."""
    peers = peers_folder(arguments.peers)
    formats = arguments.formats or ("f16,int8" if arguments.short else "all")
    llama = "f16, fa off" if arguments.short and arguments.llama == "all" else arguments.llama
    ours, model = arguments.swiftkv, work.model
    # In the order of the tables; what the phases do not need is not opened.
    makers = [
        ("swiftkv", SwiftKv, (ours, formats), phases - {"serve"}),
        ("llama", LlamaCpp, (peers, llama), phases - {"serve"}),
        ("llama_f16", LlamaCppF16, (peers, llama), phases & LINEAR),
        ("openvino", OpenVino, (peers, model), phases - {"serve"}),
        ("vllm", Vllm, (peers, model), phases & LINEAR),
        ("swiftkv", SwiftKvServed, (ours, formats), phases & {"serve"}),
        ("llama", LlamaServed, (ours, peers, llama), phases & {"serve"}),
        ("openvino", OpenVinoServed, (peers, model), phases & {"serve"}),
        ("vllm", VllmServed, (ours, peers, model), phases & {"serve"}),
    ]
    skipped = set(arguments.skip.split(","))
    if arguments.short:
        skipped |= {"openvino", "vllm"}
    engines, failures = [], {}
    for key, kind, values, wanted in makers:
        if key in skipped or not wanted:
            continue
        try:
            engines.append(kind(*values))
        except PeerFailed as failure:
            failures[kind.name] = str(failure)
    return engines, failures


class Comparison:
    """Collects figures: {(engine, setting): {(metric, tokens): [tokens per second]}}."""

    def __init__(self):
        self.figures, self.failures = {}, {}

    def add(self, engine, measured):
        """Adds the figures of one job in one round."""
        for (setting, metric, tokens), rate in measured.items():
            row = self.figures.setdefault((engine, setting), {})
            row.setdefault((metric, tokens), []).append(rate)

    def median(self, row, column):
        """Returns the median of a setting's figure, or None."""
        values = self.figures[row].get(column)
        return statistics.median(values) if values else None

    def columns(self):
        """Returns the metrics in the order of the tables."""
        found = {column for row in self.figures.values() for column in row}
        return sorted(found, key=lambda column: (list(METRICS).index(column[0]), column[1]))

    def best(self, engine, column):
        """Returns (rate, setting) of the engine's best setting for one metric, or None."""
        rates = [(self.median(row, column), row[1]) for row in self.figures if row[0] == engine]
        return max((rate for rate in rates if rate[0]), default=None)

    def is_near_best(self, engine, setting):
        """Whether a setting is within reach of its engine's best somewhere."""
        row = (engine, setting)
        return row in self.figures and any(
            self.median(row, column) >= NEAR_BEST * self.best(engine, column)[0]
            for column in self.figures[row]
        )


def measure(engines, work, rounds):
    """Runs the rounds and returns the comparison. A server has no job of the others' and runs alone:
    it starts with its turn and ends with it."""
    comparison = Comparison()
    for number in range(rounds):
        for engine in engines:
            for job in engine.jobs():
                single = len(engine.jobs()) == 1
                if number > 0 and not single and not comparison.is_near_best(engine.name, job):
                    continue
                say(f"round {number + 1} of {rounds}: {engine.name}, {job}")
                try:
                    comparison.add(engine.name, engine.measure(job, work))
                except PeerFailed as failure:
                    comparison.failures[f"{engine.name}, {job}"] = str(failure)
    for engine in engines:
        engine.close()
    return comparison


def table(header, rows):
    """Returns a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def heading(column, work):
    """Returns the words for a metric."""
    return METRICS[column[0]].format(
        tokens=column[1],
        prefill=work.prefill,
        sharers=work.sharers,
        streams=work.streams,
        requests=work.requests,
        own=work.own,
        new=work.new,
        served=work.served,
    )


def render(comparison, engines, work, rounds):
    """Returns the report as Markdown."""
    columns = comparison.columns()
    versions = "; ".join(dict.fromkeys(f"{engine.name} {engine.version}" for engine in engines))
    lines = [
        f"{machine()}; {work.threads} threads; {work.model.name}; {versions}; "
        f"{datetime.date.today()}.",
        f"Tokens per second, medians of up to {rounds} rounds in which the engines took turns.",
        "",
    ]
    rows = []
    for row in comparison.figures:
        rates = [comparison.median(row, column) for column in columns]
        rows.append([*row, *(f"{rate:.1f}" if rate else "-" for rate in rates)])
    for name, reason in comparison.failures.items():
        rows.append([name, f"did not run: {reason}", *["-"] * len(columns)])
    lines += table(["engine", "cache", *(heading(column, work) for column in columns)], rows)
    peers = dict.fromkeys(engine.name for engine in engines if engine.name != SwiftKv.name)
    ratios = []
    for peer in peers:
        for engine, setting in comparison.figures:
            if engine != SwiftKv.name:
                continue
            cells = []
            for column in columns:
                ours, best = comparison.median((engine, setting), column), None
                best = comparison.best(peer, column)
                cells.append(f"{ours / best[0]:.2f} ({best[1]})" if ours and best else "-")
            ratios.append([f"{setting} / best of {peer}", *cells])
    if ratios:
        lines += ["", *table(["ratio", *(heading(column, work) for column in columns)], ratios)]
    return "\n".join(lines) + "\n"


def as_json(comparison, engines, work, rounds):
    """Returns everything that was measured, each round's figure included."""
    rows = [
        {"engine": engine, "setting": setting, "metric": metric, "tokens": tokens, "rates": rates}
        for (engine, setting), row in comparison.figures.items()
        for (metric, tokens), rates in row.items()
    ]
    return {
        "machine": machine(),
        "model": str(work.model),
        "threads": work.threads,
        "rounds": rounds,
        "versions": {engine.name: engine.version for engine in engines},
        "failures": comparison.failures,
        "rows": rows,
    }


def main():
    """Measures, prints and keeps the report."""
    arguments = parse_arguments()
    if arguments.have_peers:
        return 0 if (peers_folder(arguments.peers) / "llama-bench").is_file() else 1
    phases = chosen_phases(arguments)
    work = make_work(arguments, phases)
    if arguments.quality:
        programs = peers_folder(arguments.peers)
        text, data = peer_quality.compare(arguments, work, programs, machine())
    else:
        rounds = arguments.rounds or (1 if arguments.short else 3)
        engines, failures = open_engines(arguments, phases, work)
        comparison = measure(engines, work, rounds)
        comparison.failures = {**failures, **comparison.failures}
        text = render(comparison, engines, work, rounds)
        data = as_json(comparison, engines, work, rounds)
    print(text, end="")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        name = "quality" if arguments.quality else "peers"
        (arguments.out / f"{name}.md").write_text(text, encoding="utf-8")
        (arguments.out / f"{name}.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PeerFailed as failure:
        print(f"compare_peers.py: {failure}", file=sys.stderr)
        sys.exit(1)
