# SPDX-License-Identifier: Apache-2.0
"""Runs SwiftKV, llama.cpp and OpenVINO GenAI on the same model and reads their tokens per second.

An engine has jobs; a job is one or several commands and gives figures: {(setting, metric, tokens):
tokens per second}. Metrics: `prefill` and `decode` behind so many tokens, `prompt` of so many
tokens, `batch`: decode of several sequences that share so many tokens, all of them together.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

from setup_cache import cache_root, fresh_directory, locked, say

OPENVINO = ("openvino-genai==2026.4.1.0", "openvino==2026.4.1", "numpy==2.4.6")
# Name, type of K, type of V, flash attention. llama.cpp quantises V with flash attention only.
LLAMA_SETTINGS = (
    ("f16, fa off", "f16", "f16", 0),
    ("f16, fa on", "f16", "f16", 1),
    ("K q8_0, fa off", "q8_0", "f16", 0),
    ("K q4_0, fa off", "q4_0", "f16", 0),
    ("q8_0, fa on", "q8_0", "q8_0", 1),
    ("q4_0, fa on", "q4_0", "q4_0", 1),
)
TIMEOUT_SECONDS = 3600  # of one command


class PeerFailed(Exception):
    """An engine that cannot be measured, with the reason in one line."""


@dataclasses.dataclass(frozen=True)
class Work:
    """What is measured."""

    model: pathlib.Path
    threads: int
    depths: tuple
    prompt: int  # tokens; 0: none
    batch: int  # sequences; 0: none
    shared: int  # tokens that they share
    prefill: int = 512
    decode: int = 32


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


class SwiftKv:
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
        depths = sorted({*work.depths, *([work.prompt] if work.prompt else [])})
        for row in self._rows(work, depths, ()):
            setting, depth = row["format"], row["depth"]
            if depth in work.depths:
                figures[setting, "prefill", depth] = row["prefill_tps"]
                figures[setting, "decode", depth] = row["decode_tps"]
            if work.prompt and depth == work.prompt:
                figures[setting, "prompt", depth] = row["prompt_tps"]
        if work.batch:
            extra = ("--batch", work.batch, "--shared", work.shared)
            for row in self._rows(work, [work.shared], extra):
                figures[row["format"], "batch", work.shared] = row["decode_tps"]
        return figures

    def _rows(self, work, depths, extra):
        command = [self.program, "bench", "model", "--json", "-m", work.model, "-t", work.threads]
        command += ["--formats", self.formats, "--rounds", 1]
        command += ["--prefill", work.prefill, "--decode", work.decode]
        command += ["--depths", ",".join(str(depth) for depth in depths), *extra]
        return json.loads(run(command))["rows"]


class LlamaCpp:
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

    def measure(self, job, work):
        """Returns the figures of one setting."""
        key, value, flash = self.settings[job]
        figures = {}
        common = ["-m", work.model, "-t", work.threads, "-ctk", key, "-ctv", value]
        depths = ",".join(str(depth) for depth in work.depths)
        tests = [["-p", work.prefill, "-n", work.decode, "-d", depths]]
        if work.prompt:
            tests.append(["-p", work.prompt, "-n", 0])
        for test in tests:
            command = [self.programs / "llama-bench", *common, "-fa", flash, "-r", 1, "-o", "jsonl"]
            for row in json_lines(run(command + test)):
                self.version = f"build {row['build_number']}"
                rate, depth = row["avg_ts"], row["n_depth"]
                if row["n_gen"] > 0:
                    figures[job, "decode", depth] = rate
                elif row["n_prompt"] == work.prompt:
                    figures[job, "prompt", work.prompt] = rate
                else:
                    figures[job, "prefill", depth] = rate
        if work.batch:
            figures[job, "batch", work.shared] = self._batch(common, flash, work)
        return figures

    def _batch(self, common, flash, work):
        context = work.shared + work.batch * work.decode + 64
        command = [self.programs / "llama-batched-bench", *common, "-c", context, "-npp"]
        command += [work.shared, "-ntg", work.decode, "-npl", work.batch, "-pps"]
        command += ["-fa", "on" if flash else "off", "--output-format", "jsonl"]
        return json_lines(run(command))[-1]["speed_tg"]


class OpenVino:
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
        command += [work.decode, depths, work.prompt]
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
