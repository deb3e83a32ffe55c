#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds `swiftkv serve` under mixed traffic of many clients, some of which leave at random points, and
checks afterwards that nothing is left behind.

Usage: soak_server.py [--seconds N] [--clients N] [--seed N] [--phase NAME] [--model GGUF | --tiny]
                      [--program FILE]

A program built with sanitizers computes so slowly that clients of a real model would see no more than
a reply or two: --tiny serves a model of two small layers, which tests/write_tiny_model beside the
program writes. What goes on is told on standard error every few seconds.

Each client draws its requests and its faults from the seed and its own number: the same seed, the
same requests. A phase other than mixed sends one kind alone, so that what grows has a name: one token
behind prompts that are unique, or repeated; streams whose client has left; what must be refused. What must hold at the end:
  ALIVE    the same process, with the same answer to the same question as before
  DRAINED  no request runs or waits, no byte of the cache is in use, no descriptor is open, no
           processor is busy
  FLAT     resident memory, fitted by a line over all samples after the first third of the time, grew
           by less than --most-growth
  RIGHT    every reply that was awaited was whole and had the status that it had to have

Exit status 0 if all four hold. Ends with one line per property and the slope of the memory.
"""

import argparse
import collections
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from soak_errands import Errands, fault_of

SCRIPTS = pathlib.Path(__file__).resolve().parent
PATIENCE_SECONDS = 120
PROGRESS_SECONDS = 10
IDLE_SECONDS = 0.5  # over which a server with nothing to do is watched
MOST_IDLE_LOAD = 0.2  # processors that it may keep busy meanwhile
MEBIBYTE = 1 << 20


def tell(text):
    """Says what goes on, at once, beside the report."""
    print(f"[soak] {text}", file=sys.stderr, flush=True)


class Traffic:
    """All clients, and what became of their errands."""

    def __init__(self, port, arguments):
        self.port, self.arguments = port, arguments
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.faults = []
        self.end = time.monotonic() + arguments.seconds

    def run_client(self, number):
        """Runs errands until the time is over."""
        errands = Errands(self.arguments.seed, number, self.arguments.phase)
        while time.monotonic() < self.end:
            errand = errands.draw()
            try:
                outcome, fault = self.run(errand)
            except (OSError, ValueError) as failure:
                outcome, fault = "awaited", f"{type(failure).__name__}: {failure}"
            with self.lock:
                self.counts[errand.name, outcome] += 1
                if fault:
                    self.faults.append(f"client {number}, {errand.name}: {fault}")

    def progress(self):
        """Returns what became of errands so far, in short."""
        with self.lock:
            return f"{sum(self.counts.values())} errands, {len(self.faults)} faults"

    def run(self, errand):
        """Returns (what the client did, what was wrong with the reply)."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_SECONDS) as connection:
            if errand.resets:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if errand.leaves_after_sending >= 0:
                connection.sendall(errand.data[: errand.leaves_after_sending])
                return "left while sending", ""
            connection.sendall(errand.data)
            reply = b""
            while piece := connection.recv(1 << 16):
                reply += piece
                if 0 <= errand.leaves_after_reading <= len(reply):
                    return "left while reading", ""
                time.sleep(errand.pause_seconds)
            return "awaited", fault_of(errand, reply)


class Served:
    """The server under test and what is known of it from outside."""

    def __init__(self, arguments, folder):
        command = [arguments.program, "serve", "--json", "--port", "0", "-m", arguments.model]
        command += ["--kv-memory", arguments.kv_memory, "--drain-timeout", "5"]
        command += ["--quality", "any"]  # some requests forget
        if arguments.tiny:
            command += ["--linear", "ggml"]  # nothing to choose from: a start without measuring
        tell(f"{arguments.program} loads {arguments.model}")
        environment = {**os.environ, "SWIFTKV_CACHE_DIR": folder}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        told = self.process.stdout.readline()
        if not told:
            raise SystemExit("soak_server.py: the server did not start")
        self.port = json.loads(told)["port"]

    def ask(self, path, fields=None):
        """Returns a parsed reply."""
        data = None if fields is None else json.dumps(fields).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:
            return json.load(reply)

    def probe(self):
        """Returns the answer to one question."""
        body = {"prompt": "The sky is", "max_tokens": 8, "temperature": 0}
        return self.ask("/v1/completions", body)["choices"][0]["text"]

    def resident_bytes(self):
        """Returns resident memory."""
        statm = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii")
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self):
        """Returns the time of processors that the server has taken so far."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        """Returns how many descriptors are open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def remains(self, descriptors_before):
        """Returns what is left behind once all clients are gone, waiting a while for it to go."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            kv = self.ask("/kv")
            before = self.processor_seconds()
            time.sleep(IDLE_SECONDS)
            load = (self.processor_seconds() - before) / IDLE_SECONDS
            found = {
                "running": kv["running"],
                "waiting": kv["waiting"],
                "live tokens": kv["live_tokens"],
                "live bytes": kv["bytes"]["live_private"] + kv["bytes"]["live_shared"],
                "descriptors": max(0, self.descriptors() - descriptors_before),
                "processors busy": load if load > MOST_IDLE_LOAD else 0,
            }
            left = {name: count for name, count in found.items() if count}
            if not left or time.monotonic() > end:
                return left


def slope(samples):
    """Returns the slope of a line fitted to (x, y) samples by least squares."""
    middle_x = sum(x for x, _ in samples) / len(samples)
    middle_y = sum(y for _, y in samples) / len(samples)
    spread = sum((x - middle_x) ** 2 for x, _ in samples)
    return sum((x - middle_x) * (y - middle_y) for x, y in samples) / spread if spread else 0.0


def soak(served, arguments):
    """Runs the traffic and returns it with samples of (seconds, resident bytes)."""
    traffic = Traffic(served.port, arguments)
    clients = [
        threading.Thread(target=traffic.run_client, args=(number,), daemon=True)
        for number in range(arguments.clients)
    ]
    start = time.monotonic()
    for client in clients:
        client.start()
    samples = []
    told = 0.0
    while (left := sum(client.is_alive() for client in clients)) and served.process.poll() is None:
        now = time.monotonic() - start
        if now < arguments.seconds:  # replies still awaited after that are no load like before
            samples.append((now, served.resident_bytes()))
        if now >= told + PROGRESS_SECONDS:
            told = now
            tell(
                f"{now:.0f} s: {traffic.progress()}, {left} clients, "
                f"{samples[-1][1] / MEBIBYTE:.1f} MiB resident"
            )
        time.sleep(min(1.0, arguments.seconds / 50))
    return traffic, samples


def report(served, arguments, before, traffic, samples):
    """Prints what held and what did not; returns whether all did."""
    late = [one for one in samples if one[0] >= arguments.seconds / 3] or samples or [(0.0, 0)]
    per_second = slope(late)
    growth = per_second * (late[-1][0] - late[0][0])
    lines = {}
    alive = served.process.poll() is None
    tell("looking at what is left")
    left = served.remains(before["descriptors"]) if alive else {"process": 0}
    alive = alive and served.probe() == before["answer"]
    lines["ALIVE"] = alive, "" if alive else "ended, or answers otherwise than before"
    lines["DRAINED"] = not left, ", ".join(f"{count} {name}" for name, count in left.items())
    lines["FLAT"] = growth < arguments.most_growth * MEBIBYTE, (
        f"{per_second * 60 / 1024:+.1f} KiB/min over {late[-1][0] - late[0][0]:.0f} s, "
        f"{late[-1][1] / MEBIBYTE:.1f} MiB resident at the end"
    )
    lines["RIGHT"] = not traffic.faults, f"{len(traffic.faults)} faults" if traffic.faults else ""
    for fault in traffic.faults[:10]:
        print(f"  {fault}")
    for (name, outcome), count in sorted(traffic.counts.items()):
        print(f"{count:8} {name}, {outcome}")
    for name, (held, why) in lines.items():
        print(f"{'ok  ' if held else 'FAIL'} {name:8} {why}".rstrip())
    return all(held for held, _ in lines.values())


def read_arguments():
    """Returns the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--seconds", type=float, default=600)
    add("--clients", type=int, default=16)
    add("--seed", type=int, default=1)
    add("--phase", choices=Errands.PHASES, default="mixed")
    add("--model", help="GGUF to serve (default: the one that scripts/fetch_models.py fetches)")
    add("--tiny", action="store_true", help="serve a tiny model with random weights instead")
    add("--program", default=str(SCRIPTS.parent / "build" / "swiftkv"))
    add("--kv-memory", default="64MiB", help="small, so that the cache is full and evicts")
    add("--most-growth", type=float, default=8, metavar="MIB")
    arguments = parser.parse_args()
    if arguments.model is None and not arguments.tiny:
        fetched = subprocess.run(
            [SCRIPTS / "fetch_models.py"], check=True, stdout=subprocess.PIPE, text=True
        )
        arguments.model = fetched.stdout.strip()
    return arguments


def write_tiny_model(program, folder):
    """Writes the tiny model by what is built beside the program, and returns its path."""
    writer = pathlib.Path(program).resolve().parent / "tests" / "write_tiny_model"
    written = subprocess.run([writer, folder], check=True, stdout=subprocess.PIPE, text=True)
    return written.stdout.strip()


def main():
    """Runs the soak."""
    arguments = read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.tiny:
            arguments.model = write_tiny_model(arguments.program, folder)
        served = Served(arguments, folder)
        try:
            before = {"answer": served.probe(), "descriptors": served.descriptors()}
            tell(f"{arguments.clients} clients for {arguments.seconds:g} s")
            traffic, samples = soak(served, arguments)
            held = report(served, arguments, before, traffic, samples)
            served.process.send_signal(signal.SIGTERM)
            if served.process.wait(timeout=PATIENCE_SECONDS) != 0:
                print(f"FAIL the server ended with status {served.process.returncode}")
                held = False
        finally:
            served.process.kill()
            served.process.wait()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
