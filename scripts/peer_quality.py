# SPDX-License-Identifier: Apache-2.0
"""Compares what our cache formats lose with what llama.cpp's lose: mean KLD over bits a value.

Both sides run the same weights, rewritten as F16 so that their rounding hides nothing, over the
same text with windows of 2,048 tokens, each against its own exact cache. llama.cpp's
own formats give points; ours are judged by the line through them, log KLD linear in bits.
"""

import gzip
import json
import math
import pathlib
import re

from peer_engines import PeerFailed, quantized, run
from setup_cache import say, scratch_directory

PROSE = pathlib.Path("/usr/share/doc/debian-policy/policy.txt")
PROSE_START = 12000  # bytes; behind the table of contents
CONTEXT = 2048
EXACT_KLD = 1e-5
# Name, type of K, type of V, bits a value with scales, whether it is a point of the line.
LLAMA_FORMATS = (
    ("f16", "f16", "f16", 16, False),
    ("bf16", "bf16", "bf16", 16, True),
    ("q8_0 K, V", "q8_0", "q8_0", 8.5, True),
    ("q8_0 K, q4_0 V", "q8_0", "q4_0", 6.5, True),
    ("q4_0 K, V", "q4_0", "q4_0", 4.5, True),
)
FIGURES = {
    "mean_kld": re.compile(r"^Mean\s+KLD:\s*(\S+)", re.MULTILINE),
    "p99_kld": re.compile(r"^99\.0%\s+KLD:\s*(\S+)", re.MULTILINE),
    "same_top1": re.compile(r"^Same top p:\s*(\S+)", re.MULTILINE),
    "ppl": re.compile(r"^Mean PPL\(Q\)\s*:\s*(\S+)", re.MULTILINE),
}


def prose(count):
    """Returns `count` bytes of text; 48,000 are those that llama.cpp's figures are known for."""
    wanted = slice(PROSE_START, PROSE_START + count)
    if PROSE.is_file():
        return PROSE.read_bytes()[wanted]
    packed = PROSE.with_suffix(".txt.gz")
    if packed.is_file():
        return gzip.decompress(packed.read_bytes())[wanted]
    raise PeerFailed(f"{packed} is missing; install Debian's package debian-policy")


def parse_perplexity(text):
    """Returns the figures that llama-perplexity prints, shares in [0, 1]."""
    row = {}
    for key, pattern in FIGURES.items():
        found = pattern.search(text)
        if not found:
            raise PeerFailed(f"llama-perplexity printed no {key}")
        row[key] = float(found.group(1))
    row["same_top1"] /= 100
    return row


def line_at(points, bits):
    """Returns the KLD of the line through (bits, KLD) points: log KLD linear in bits between
    neighbours, the outer pieces prolonged."""
    points = sorted(points)
    for left, right in zip(points, points[1:]):
        if bits <= right[0] or right == points[-1]:
            share = (bits - left[0]) / (right[0] - left[0])
            return math.exp((1 - share) * math.log(left[1]) + share * math.log(right[1]))
    raise PeerFailed("a line needs two points")


def verdict(row, points, exact):
    """Returns (limit, whether the row lies on or below it). f16 has no line: its loss is the noise
    of the last bit, bounded by llama.cpp's or EXACT_KLD."""
    if row["format"] == "f16":
        limit = max(exact, EXACT_KLD)
    else:
        limit = line_at(points, row["bits_per_value"])
    # Nothing stands for a loss without bound.
    return limit, row["mean_kld"] is not None and row["mean_kld"] <= limit


def measure_llama(programs, model, text, threads):
    """Returns one row for each of llama.cpp's formats."""
    weights = quantized(programs, model, "F16")
    rows = []
    with scratch_directory() as folder:
        (folder / "text").write_bytes(text)
        base = folder / "base"
        common = [
            programs / "llama-perplexity",
            "-m",
            weights,
            "-f",
            folder / "text",
            "-c",
            CONTEXT,
        ]
        common += ["-t", threads, "--kl-divergence-base", base]
        say("llama.cpp: the base, f32")
        run([*common, "-ctk", "f32", "-ctv", "f32", "-fa", "off"])
        for name, key, value, bits, on_line in LLAMA_FORMATS:
            say(f"llama.cpp: {name}")
            printed = run([*common, "--kl-divergence", "-ctk", key, "-ctv", value, "-fa", "on"])
            row = {"format": name, "bits_per_value": bits, "on_line": on_line}
            rows.append({**row, **parse_perplexity(printed)})
    return rows


def measure_ours(program, model, text, arguments):
    """Returns the rows of `swiftkv eval`."""
    with scratch_directory() as folder:
        (folder / "text").write_bytes(text)
        command = [program, "eval", "--json", "-m", model, "--text", folder / "text"]
        command += ["-t", arguments.threads, "-c", CONTEXT, "--weights", "f16"]
        if arguments.formats:
            command += ["--formats", arguments.formats]
        say("SwiftKV: eval")
        return json.loads(run(command))["rows"]


def report(ours, theirs, facts):
    """Returns the comparison as Markdown, and our rows with their limits."""
    points = [(row["bits_per_value"], row["mean_kld"]) for row in theirs if row["on_line"]]
    exact = next(row["mean_kld"] for row in theirs if row["format"] == "f16")
    lines = [facts, "", "| engine | cache | bits a value | mean KLD | 99 % KLD | same top-1 | PPL "]
    lines[-1] += "| the line there | verdict |"
    lines.append("|" + "---|" * 9)

    def cells(engine, row):
        loss = ["-" if row[key] is None else f"{row[key]:.3g}" for key in ("mean_kld", "p99_kld")]
        ppl = "-" if row["ppl"] is None else f"{row['ppl']:.3f}"
        return (
            f"| {engine} | {row['format']} | {row['bits_per_value']:.2f} | {loss[0]} | {loss[1]} "
            f"| {100 * row['same_top1']:.1f} % | {ppl} |"
        )

    for row in theirs:
        lines.append(cells("llama.cpp", row) + " - | - |")
    judged = []
    for row in ours:
        limit, holds = verdict(row, points, exact)
        judged.append({**row, "limit": limit, "holds": holds})
        words = "on or below"
        if not holds:
            words = f"above, {(row['mean_kld'] or math.inf) / limit:.2f} times"
        lines.append(cells("SwiftKV", row) + f" {limit:.3g} | {words} |")
    return "\n".join(lines) + "\n", judged


def compare(arguments, work, programs, machine):
    """Measures both sides; returns Markdown and everything as plain data."""
    text = prose(arguments.bytes)
    theirs = measure_llama(programs, work.model, text, arguments.threads)
    ours = measure_ours(arguments.swiftkv, work.model, text, arguments)
    facts = (
        f"{machine}; {work.model.name} with F16 weights; {len(text):,} bytes of prose, windows of "
        f"{CONTEXT:,} tokens; each engine against its own exact cache."
    )
    table, judged = report(ours, theirs, facts)
    return table, {"facts": facts, "ours": judged, "llama.cpp": theirs}
