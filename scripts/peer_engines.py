# SPDX-License-Identifier: Apache-2.0
"""Runs SwiftKV, llama.cpp and OpenVINO GenAI on the same model and reads their tokens per second.

An engine has jobs; a job is one or several commands and gives figures: {(setting, metric, tokens):
tokens per second}. Metrics: `prefill` and `decode` behind so many tokens, `prompt` of so many
tokens, `shared`: decode of several sequences that share so many tokens, `batch`: decode of several
sequences behind so many tokens of their own; the last two count all sequences together. `alike`
and `unlike` are whole requests, submitted at once to an empty cache: tokens of all replies by the
time until the last one, where so many tokens are the same in all prompts, and where none are.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

from setup_cache import cache_root, fresh_directory, locked, say

OPENVINO = ("openvino-genai==2026.4.1.0", "openvino==2026.4.1", "numpy==2.4.6")
# Name, type of K, type of V, flash attention, tokens of a step. llama.cpp quantises V with flash
# attention only.
LLAMA_SETTINGS = (
    ("f16, fa off", "f16", "f16", 0, 512),
    ("f16, fa on", "f16", "f16", 1, 512),
    ("f16, fa on, steps of 2048", "f16", "f16", 1, 2048),
    ("K q8_0, fa off", "q8_0", "f16", 0, 512),
    ("K q4_0, fa off", "q4_0", "f16", 0, 512),
    ("q8_0, fa on", "q8_0", "q8_0", 1, 512),
    ("q4_0, fa on", "q4_0", "q4_0", 1, 512),
)
EXACT_CACHE = "f16, fa"  # what the names of settings begin with whose cache loses nothing
TIMEOUT_SECONDS = 3600  # of one command


class PeerFailed(Exception):
    """An engine that cannot be measured, with the reason in one line."""


@dataclasses.dataclass(frozen=True)
class Work:
    """What is measured; an empty tuple or 0 sequences: not that."""

    model: pathlib.Path
    threads: int
    depths: tuple = ()
    prompts: tuple = ()  # tokens of each
    sharers: int = 0  # sequences
    shared: int = 2048  # tokens that they share
    streams: int = 0  # sequences
    context: int = 300  # tokens of each
    requests: int = 0
    common: int = 1900  # tokens that their prompts may share
    own: int = 20  # tokens behind them
    new: int = 64  # tokens of each reply
    prefill: int = 512
    decode: int = 32
    served: int = 0  # clients of servers; their prompts and replies are as long as above
    alone: int = 200  # tokens of a reply to a single client


def run(command, environment=None):
    """Returns what the command printed; PeerFailed with its last line where it failed."""
    try:
        finished = subprocess.run(
            [str(part) for part in command],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            env={**os.environ, **(environment or {})},
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise PeerFailed(str(failure)) from failure
    if finished.returncode != 0:
        lines = [line for line in finished.stderr.splitlines() if line.strip()]
        last = lines[-1].strip() if lines else "nothing on standard error"
        name = pathlib.Path(command[0]).name
        raise PeerFailed(f"{name} ended with status {finished.returncode}: {last[:200]}")
    return finished.stdout


def json_lines(text):
    """Returns the JSON objects of the lines that are one."""
    return [json.loads(line) for line in text.splitlines() if line.lstrip().startswith("{")]


class Engine:
    """What all engines share."""

    def close(self):
        """Ends what the engine kept running between its turns."""


class SwiftKv(Engine):
    """Our own build; one job measures all formats in turn."""

    name = "SwiftKV"

    def __init__(self, program, formats):
        self.program, self.formats = program, formats
        self.version = run([program, "--version"]).split()[-1]

    def jobs(self):
        """Returns the names of the jobs."""
        return ("all formats",)

    def measure(self, _job, work):
        """Returns the figures of every format."""
        figures = {}
        if work.depths:
            for row in self._rows(work, work.depths):
                figures[row["format"], "prefill", row["depth"]] = row["prefill_tps"]
                figures[row["format"], "decode", row["depth"]] = row["decode_tps"]
        if work.prompts:
            brief = dataclasses.replace(work, prefill=1, decode=1)
            for row in self._rows(brief, work.prompts):
                figures[row["format"], "prompt", row["depth"]] = row["prompt_tps"]
        if work.sharers:
            extra = ("--batch", work.sharers, "--shared", work.shared)
            for row in self._rows(work, [work.shared], extra):
                figures[row["format"], "shared", work.shared] = row["decode_tps"]
        if work.streams:
            brief = dataclasses.replace(work, prefill=1)
            for row in self._rows(brief, [work.context], ("--batch", work.streams)):
                figures[row["format"], "batch", work.context] = row["decode_tps"]
        if work.requests:
            for row in self._requests(work, work.common, work.own):
                figures[row["format"], "alike", work.common] = row["tokens_per_s"]
            for row in self._requests(work, 0, work.common + work.own):
                figures[row["format"], "unlike", work.common + work.own] = row["tokens_per_s"]
        return figures

    def _requests(self, work, shared, own):
        command = [self.program, "bench", "engine", "--json", "-m", work.model, "-t", work.threads]
        command += ["--formats", self.formats, "--rounds", 1, "--late-prompt", 0]
        command += ["--requests", work.requests, "--new", work.new]
        return json.loads(run([*command, "--shared", shared, "--own", own]))["rows"]

    def _rows(self, work, depths, extra=()):
        command = [self.program, "bench", "model", "--json", "-m", work.model, "-t", work.threads]
        command += ["--formats", self.formats, "--rounds", 1]
        command += ["--prefill", work.prefill, "--decode", work.decode]
        command += ["--depths", ",".join(str(depth) for depth in depths), *extra]
        return json.loads(run(command))["rows"]


class LlamaCpp(Engine):
    """llama-bench and llama-batched-bench; one job for each setting."""

    name = "llama.cpp"

    def __init__(self, programs, settings):
        self.programs = programs
        self.version = "unknown"
        self.settings = {row[0]: row[1:] for row in LLAMA_SETTINGS if settings in ("all", row[0])}
        if not (programs / "llama-bench").is_file():
            raise PeerFailed(f"no llama-bench in {programs}; `make peers` builds it")

    def jobs(self):
        """Returns the names of the jobs."""
        return tuple(self.settings)

    def weights(self, work):
        """Returns the file that is measured."""
        return work.model

    def measure(self, job, work):
        """Returns the figures of one setting."""
        key, value, flash, step = self.settings[job]
        common = ["-m", self.weights(work), "-t", work.threads, "-ctk", key, "-ctv", value]
        common += ["-ub", step]
        figures = {}
        if work.depths:
            depths = ",".join(str(depth) for depth in work.depths)
            test = ["-p", work.prefill, "-n", work.decode, "-d", depths]
            for row in self._bench(common, flash, test):
                metric = "decode" if row["n_gen"] > 0 else "prefill"
                figures[job, metric, row["n_depth"]] = row["avg_ts"]
        if work.prompts:
            test = ["-p", ",".join(str(count) for count in work.prompts), "-n", 0]
            for row in self._bench(common, flash, test):
                figures[job, "prompt", row["n_prompt"]] = row["avg_ts"]
        if work.sharers:
            context = work.shared + work.sharers * work.decode
            test = ["-npp", work.shared, "-npl", work.sharers, "-pps", "-ntg", work.decode]
            row = self._batch(common, flash, context, test)
            figures[job, "shared", work.shared] = row["speed_tg"]
        if work.streams:
            context = work.streams * (work.context + work.decode)
            test = ["-npp", work.context, "-npl", work.streams, "-ntg", work.decode]
            row = self._batch(common, flash, context, test)
            figures[job, "batch", work.context] = row["speed_tg"]
        if work.requests:
            length = work.common + work.own
            test = ["-npp", length, "-npl", work.requests, "-ntg", work.new]
            context = length + work.requests * work.new
            row = self._batch(common, flash, context, [*test, "-pps"])  # even what is our own
            figures[job, "alike", work.common] = work.requests * work.new / row["t"]
            row = self._batch(common, flash, work.requests * (length + work.new), test)
            figures[job, "unlike", length] = work.requests * work.new / row["t"]
        return figures

    def _bench(self, common, flash, test):
        command = [self.programs / "llama-bench", *common, "-fa", flash, "-r", 1, "-o", "jsonl"]
        rows = json_lines(run(command + test))
        self.version = f"build {rows[0]['build_number']}"
        return rows

    def _batch(self, common, flash, context, test):
        # One cache for all sequences where they share: else each holds its share of the context only,
        # which is what suits sequences that share nothing.
        unified = ["-kvu"] if "-pps" in test else []
        command = [self.programs / "llama-batched-bench", *common, "-c", context + 64, *unified, *test]
        command += ["-fa", "on" if flash else "off", "--output-format", "jsonl"]
        return json_lines(run(command))[-1]


class LlamaCppF16(LlamaCpp):
    """llama.cpp on the same weights rewritten as F16: more bytes, and faster where a step has many
    rows. Only the cache settings that lose nothing."""

    name = "llama.cpp, F16 weights"

    def __init__(self, programs, settings):
        super().__init__(programs, settings)
        exact = {name: row for name, row in self.settings.items() if name.startswith(EXACT_CACHE)}
        self.settings = exact

    def weights(self, work):
        """Returns the file that is measured, making it once."""
        return quantized(self.programs, work.model, "F16")


class OpenVino(Engine):
    """OpenVINO GenAI from PyPI on the model requantised to Q4_0, which its GGUF reader takes."""

    name = "OpenVINO GenAI"

    def __init__(self, programs, model):
        self.version = OPENVINO[0].rsplit("=", 1)[-1]
        self.folder = install_openvino()
        self.model = quantized(programs, model, "Q4_0")

    def jobs(self):
        """Returns the names of the jobs: precisions of its cache."""
        return ("default", "f16")

    def measure(self, job, work):
        """Returns the figures of one precision."""
        script = pathlib.Path(__file__).with_name("openvino_bench.py")
        depths = ",".join(str(depth) for depth in work.depths)
        command = [sys.executable, script, self.model, work.threads, job, work.prefill]
        command += [work.decode, depths, ",".join(str(count) for count in work.prompts)]
        printed = run(command, {"PYTHONPATH": str(self.folder)})
        rows = json_lines(printed)[-1]["figures"]
        return {(job, metric, tokens): rate for metric, tokens, rate in rows}


def install_openvino():
    """Returns the folder of the packages, installing them once."""
    folder = cache_root() / "peers" / OPENVINO[0].replace("==", "-")
    with locked("openvino"):
        if not folder.is_dir():
            say(f"installing {OPENVINO[0]} (about 80 MB)")
            with fresh_directory(folder) as working:
                pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", working]
                run([*pip, *OPENVINO])
    return folder


def quantized(programs, model, kind):
    """Returns the model with its weights rewritten as `kind` by llama-quantize, made once."""
    target = cache_root() / "peers" / "models" / f"{model.stem}.{kind}.gguf"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".partial")
        run([programs / "llama-quantize", "--allow-requantize", model, partial, kind])
        partial.rename(target)
    return target
