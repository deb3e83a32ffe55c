# SPDX-License-Identifier: Apache-2.0
"""Tests the arithmetic of the comparison with peers: medians, best settings, the line of loss."""

import json
import math
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

# pylint: disable=wrong-import-position
import compare_peers
import peer_engines
import peer_quality
import peer_vllm
from peer_engines import PeerFailed, SwiftKv, Work

WORK = Work(pathlib.Path("m.gguf"), 2, (0, 7000), (512, 6500), 8, 2048)


class ComparisonTest(unittest.TestCase):
    """Figures of rounds become one table."""

    def setUp(self):
        self.comparison = compare_peers.Comparison()
        for rate in (10, 40, 30):
            self.comparison.add("SwiftKV", {("f16", "decode", 7000): rate})
        self.comparison.add(
            "llama.cpp",
            {("fa on", "decode", 7000): 5, ("fa on", "decode", 0): 100},
        )
        self.comparison.add(
            "llama.cpp",
            {("fa off", "decode", 7000): 15, ("fa off", "decode", 0): 90},
        )
        self.comparison.add("llama.cpp", {("slow", "decode", 7000): 1, ("slow", "decode", 0): 60})

    def test_a_figure_is_the_median_of_its_rounds(self):
        self.assertEqual(self.comparison.median(("SwiftKV", "f16"), ("decode", 7000)), 30)
        self.assertIsNone(self.comparison.median(("SwiftKV", "f16"), ("decode", 0)))

    def test_the_best_setting_is_chosen_for_each_metric(self):
        self.assertEqual(self.comparison.best("llama.cpp", ("decode", 7000)), (15, "fa off"))
        self.assertEqual(self.comparison.best("llama.cpp", ("decode", 0)), (100, "fa on"))
        self.assertIsNone(self.comparison.best("OpenVINO GenAI", ("decode", 0)))

    def test_settings_far_from_the_best_everywhere_need_no_more_rounds(self):
        near = [name for name in ("fa on", "fa off", "slow") if self.near(name)]
        self.assertEqual(near, ["fa on", "fa off"])

    def near(self, setting):
        """Whether a setting of llama.cpp gets more rounds."""
        return self.comparison.is_near_best("llama.cpp", setting)

    def test_tables_show_ratios_to_the_best_and_name_what_did_not_run(self):
        class Engine:
            """An engine that was measured."""

            def __init__(self, name):
                self.name, self.version = name, "1"

        self.comparison.failures["OpenVINO GenAI"] = "no wheel"
        engines = [Engine(SwiftKv.name), Engine("llama.cpp")]
        text = compare_peers.render(self.comparison, engines, WORK, 3)
        self.assertIn("| f16 / best of llama.cpp | - | 2.00 (fa off) |", text)
        self.assertIn("did not run: no wheel", text)
        self.assertIn("decode behind 7,000", text)

    def test_phases_choose_what_is_measured(self):
        arguments = self.parsed("--phases", "prompt,batch", "--prompt", "512,6500")
        work = compare_peers.make_work(arguments, compare_peers.chosen_phases(arguments))
        self.assertEqual((work.depths, work.prompts), ((), (512, 6500)))
        self.assertEqual((work.sharers, work.streams, work.context), (0, 16, 300))
        with self.assertRaisesRegex(PeerFailed, "decoding"):
            compare_peers.chosen_phases(self.parsed("--phases", "prompt,decoding"))

    def test_short_runs_measure_depths_only_unless_told(self):
        self.assertEqual(compare_peers.chosen_phases(self.parsed("--short")), {"depth"})
        told = self.parsed("--short", "--phases", "batch")
        self.assertEqual(compare_peers.chosen_phases(told), {"batch"})
        self.assertEqual(compare_peers.chosen_phases(self.parsed()), set(compare_peers.PHASES))

    def parsed(self, *words):
        """Returns a command line's arguments."""
        with unittest.mock.patch.object(sys, "argv", ["compare_peers.py", *words]):
            return compare_peers.parse_arguments()


class EngineTest(unittest.TestCase):
    """What engines print becomes figures."""

    def test_llama_cpp_is_asked_for_the_phases_that_are_measured(self):
        commands = []

        def run(command, _environment=None):
            commands.append([str(part) for part in command])
            if command[0].name == "llama-bench":
                rows = [
                    {"build_number": 7, "n_prompt": count, "n_gen": 0, "avg_ts": count / 2}
                    for count in (512, 6500)
                ]
                return "\n".join(json.dumps(row) for row in rows)
            return "log\n" + json.dumps({"speed_tg": 40.0})

        work = Work(pathlib.Path("m.gguf"), 2, prompts=(512, 6500), streams=16)
        with tempfile.TemporaryDirectory() as name:
            (pathlib.Path(name) / "llama-bench").touch()
            engine = peer_engines.LlamaCpp(pathlib.Path(name), "all")
            with unittest.mock.patch.object(peer_engines, "run", run):
                figures = engine.measure("q8_0, fa on", work)
        setting = "q8_0, fa on"
        self.assertEqual(
            figures,
            {
                (setting, "prompt", 512): 256,
                (setting, "prompt", 6500): 3250,
                (setting, "batch", 300): 40.0,
            },
        )
        self.assertIn("512,6500", commands[0])
        self.assertEqual(commands[1][commands[1].index("-npl") + 1], "16")
        self.assertNotIn("-pps", commands[1])

    def test_vllm_decodes_a_batch_behind_prompts_that_share_nothing(self):
        asked = []

        class Worker:
            """Answers as vllm_bench.py does."""

            def ask(self, prompts, new_tokens):
                """Returns made-up times."""
                asked.append(prompts)
                count = len(prompts) * (new_tokens - 1)
                return {"prompt_seconds": 2.0, "decode_seconds": 4.0, "decode_tokens": count}

        engine = object.__new__(peer_vllm.Vllm)
        engine.worker, engine.asked = Worker(), 0
        work = Work(pathlib.Path("m.gguf"), 2, prompts=(512,), streams=16)
        figures = engine.measure("bf16", work)
        self.assertEqual(figures, {("bf16", "prompt", 512): 256, ("bf16", "batch", 300): 128})
        firsts = [tuple(prompt[:4]) for prompts in asked for prompt in prompts]
        self.assertEqual(len(set(firsts)), 17)
        self.assertEqual({len(prompt) for prompt in asked[1]}, {300})


class QualityTest(unittest.TestCase):
    """Formats are judged by the line through llama.cpp's points."""

    POINTS = [(16, 1e-4), (8.5, 3e-4), (6.5, 4e-3), (4.5, 6e-2)]

    def test_the_line_goes_through_every_point(self):
        for bits, kld in self.POINTS:
            self.assertAlmostEqual(peer_quality.line_at(self.POINTS, bits), kld)

    def test_between_points_the_logarithm_is_linear_in_bits(self):
        middle = peer_quality.line_at(self.POINTS, 7.5)
        self.assertAlmostEqual(middle, math.sqrt(3e-4 * 4e-3))
        below = peer_quality.line_at(self.POINTS, 2.5)
        self.assertAlmostEqual(below, 6e-2 * 6e-2 / 4e-3)
        with self.assertRaises(PeerFailed):
            peer_quality.line_at([(8, 1e-3)], 8)

    def test_a_format_holds_on_or_below_the_line(self):
        row = {"format": "int8", "bits_per_value": 8.5, "mean_kld": 3e-4 * (1 - 1e-9)}
        self.assertTrue(peer_quality.verdict(row, self.POINTS, 2e-6)[1])
        row["mean_kld"] = 3.1e-4
        self.assertFalse(peer_quality.verdict(row, self.POINTS, 2e-6)[1])
        exact = {"format": "f16", "bits_per_value": 16, "mean_kld": 9e-6}
        self.assertTrue(peer_quality.verdict(exact, self.POINTS, 2e-6)[1])
        exact["mean_kld"] = 2e-5
        self.assertFalse(peer_quality.verdict(exact, self.POINTS, 2e-6)[1])

    def test_the_report_judges_every_row_even_one_without_bound(self):
        loss = {"p99_kld": 0.01, "same_top1": 0.99, "ppl": 15.0}
        names = ("bf16", "q8_0 K, V", "q8_0 K, q4_0 V", "q4_0 K, V")
        theirs = [
            {"format": name, "bits_per_value": bits, "mean_kld": kld, "on_line": True, **loss}
            for name, (bits, kld) in zip(names, self.POINTS)
        ]
        theirs.append({**theirs[0], "format": "f16", "mean_kld": 2e-6, "on_line": False})
        ours = [
            {"format": "int8", "bits_per_value": 8.25, "mean_kld": 1e-4, **loss},
            {"format": "int4", "bits_per_value": 4.25, "mean_kld": None, **loss, "p99_kld": None},
        ]
        text, judged = peer_quality.report(ours, theirs, "facts")
        self.assertEqual([row["holds"] for row in judged], [True, False])
        self.assertEqual(text.count("| SwiftKV |"), 2)
        self.assertIn("above, inf times", text)

    def test_what_llama_perplexity_prints_is_read(self):
        printed = (
            "Mean PPL(Q)                   :  15.653317 ±   0.5\n"
            "Mean    KLD:   0.000310 ±   0.000004\n99.0%   KLD:   0.002800\n"
            "Same top p: 98.912 ± 0.161 %\n"
        )
        row = peer_quality.parse_perplexity(printed)
        self.assertEqual(row["mean_kld"], 0.00031)
        self.assertEqual(row["p99_kld"], 0.0028)
        self.assertAlmostEqual(row["same_top1"], 0.98912)
        with self.assertRaises(PeerFailed):
            peer_quality.parse_perplexity("Mean KLD: 1")


if __name__ == "__main__":
    unittest.main()
