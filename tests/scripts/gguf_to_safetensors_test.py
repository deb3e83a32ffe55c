# SPDX-License-Identifier: Apache-2.0
"""Tests the conversion of a GGUF to bf16 safetensors against plain restatements of both formats."""

import json
import math
import pathlib
import struct
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

# pylint: disable=wrong-import-position
import gguf_to_safetensors as converter

UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9


def text(value):
    """Returns a string as GGUF has it."""
    return struct.pack("<Q", len(value)) + value.encode()


def pair(key, kind, packed):
    """Returns one metadata entry."""
    return text(key) + struct.pack("<I", kind) + packed


def make_gguf(tensors, architecture="llama"):
    """Returns a GGUF of (name, shape with the outermost dimension first, kind, bytes) tensors: two
    heads of four, one of them for keys, and a vocabulary of three."""
    numbers = {
        "embedding_length": 8,
        "feed_forward_length": 16,
        "block_count": 1,
        "context_length": 64,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
    }
    metadata = [pair("general.architecture", STRING, text(architecture))]
    metadata += [
        pair(f"llama.{key}", UINT32, struct.pack("<I", value)) for key, value in numbers.items()
    ]
    metadata.append(pair("llama.attention.layer_norm_rms_epsilon", FLOAT32, struct.pack("<f", 0.5)))
    words = struct.pack("<IQ", STRING, 3) + b"".join(text(word) for word in ("a", "bc", ""))
    metadata.append(pair("tokenizer.ggml.tokens", ARRAY, words))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(metadata)
    body = b""
    for name, shape, kind, raw in tensors:
        body += bytes(-len(body) % 32)
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", kind, len(body))
        body += raw
    return head + bytes(-len(head) % 32) + body


def convert(gguf):
    """Returns (config, {name: (shape, values)}) of what the converter writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "model.gguf").write_bytes(gguf)
        converter.convert(folder / "model.gguf", folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        data = (folder / "model.safetensors").read_bytes()
    (count,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + count])
    tensors = {}
    for key, entry in header.items():
        if key == "__metadata__":
            continue
        begin, end = (8 + count + offset for offset in entry["data_offsets"])
        halves = struct.unpack(f"<{(end - begin) // 2}H", data[begin:end])
        tensors[key] = (entry["shape"], [f32_of(half << 16) for half in halves])
    return config, tensors


def f32_of(bits):
    """Returns the value of f32 bits."""
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def rotate(vector, position, pairs):
    """Returns a head turned by rope; `pairs` names the elements that turn together."""
    turned = list(vector)
    for number, (left, right) in enumerate(pairs):
        angle = position * 100.0 ** (-2 * number / len(vector))
        cosine, sine = math.cos(angle), math.sin(angle)
        turned[left] = vector[left] * cosine - vector[right] * sine
        turned[right] = vector[left] * sine + vector[right] * cosine
    return turned


class RoundingTest(unittest.TestCase):
    """f32 and f16 become the nearest bf16."""

    def test_a_tie_goes_to_the_even_neighbour(self):
        self.assertEqual(converter.bf16_of_f32(0x3F808000), 0x3F80)
        self.assertEqual(converter.bf16_of_f32(0x3F818000), 0x3F82)

    def test_everything_else_goes_to_the_nearer_neighbour(self):
        self.assertEqual(converter.bf16_of_f32(0x3F808001), 0x3F81)
        self.assertEqual(converter.bf16_of_f32(0xBF807FFF), 0xBF80)
        self.assertEqual(converter.bf16_of_f32(0x7F7FFFFF), 0x7F80)

    def test_what_is_no_number_stays_none(self):
        for bits in (0x7F800001, 0xFFBFFFFF):
            self.assertTrue(math.isnan(f32_of(converter.bf16_of_f32(bits) << 16)))
        self.assertEqual(converter.bf16_of_f32(0xFF800000), 0xFF80)

    def test_the_table_holds_the_nearest_bf16_of_every_f16(self):
        table = converter.bf16_of_f16()
        self.assertEqual(len(table), 65536)
        for half in range(0, 0x7C00, 7):
            (value,) = struct.unpack("<e", struct.pack("<H", half))
            found = f32_of(table[half] << 16)
            for neighbour in (table[half] - 1, table[half] + 1):
                if neighbour >= 0:
                    distance = abs(f32_of(neighbour << 16) - value)
                    self.assertLessEqual(abs(found - value), distance)
            self.assertEqual(table[half | 0x8000], table[half] | 0x8000)


class RopeTest(unittest.TestCase):
    """Rows of query and key projections change from neighbours to halves."""

    def test_rows_of_every_head_are_even_ones_and_then_odd_ones(self):
        rows = bytes(range(16))
        found = converter.halves_apart(rows, heads=2, rows=8)
        order = (0, 2, 1, 3, 4, 6, 5, 7)
        self.assertEqual(found, b"".join(rows[2 * row : 2 * row + 2] for row in order))

    def test_scores_stay_what_they_were(self):
        query, key = [0.5, -1.0, 2.0, 0.25, 1.5, -0.75], [1.0, 0.5, -0.5, 2.0, 0.125, -1.25]

        def halves(vector):
            raw = converter.halves_apart(struct.pack("<6f", *vector), heads=1, rows=6)
            return struct.unpack("<6f", raw)

        neighbours = [(0, 1), (2, 3), (4, 5)]
        apart = [(0, 3), (1, 4), (2, 5)]
        for here, there in ((3, 0), (40, 17)):
            wanted = zip(rotate(query, here, neighbours), rotate(key, there, neighbours))
            found = zip(rotate(halves(query), here, apart), rotate(halves(key), there, apart))
            self.assertAlmostEqual(
                sum(left * right for left, right in found),
                sum(left * right for left, right in wanted),
            )


class FileTest(unittest.TestCase):
    """A small GGUF becomes a folder."""

    TENSORS = [
        ("token_embd.weight", (3, 8), converter.F16, struct.pack("<24e", *range(24))),
        ("output_norm.weight", (8,), converter.F32, struct.pack("<8f", *range(8))),
        ("blk.0.attn_k.weight", (4, 8), converter.F16, struct.pack("<32e", *range(32))),
        ("blk.0.attn_v.weight", (4, 8), converter.F16, struct.pack("<32e", *range(32))),
        ("blk.0.attn_q.weight", (8, 8), converter.BF16, bytes(range(128))),
    ]

    def test_tensors_get_their_names_shapes_and_values(self):
        _, tensors = convert(make_gguf(self.TENSORS))
        self.assertEqual(
            tensors["model.embed_tokens.weight"], ([3, 8], [float(n) for n in range(24)])
        )
        self.assertEqual(tensors["model.norm.weight"], ([8], [float(n) for n in range(8)]))
        values = [float(n) for n in range(32)]
        prefix = "model.layers.0.self_attn"
        self.assertEqual(tensors[f"{prefix}.v_proj.weight"], ([4, 8], values))
        swapped = values[0:8] + values[16:24] + values[8:16] + values[24:32]
        self.assertEqual(tensors[f"{prefix}.k_proj.weight"], ([4, 8], swapped))
        self.assertEqual(tensors[f"{prefix}.q_proj.weight"][0], [8, 8])

    def test_the_configuration_follows_from_metadata_and_tensors(self):
        config, _ = convert(make_gguf(self.TENSORS))
        self.assertEqual(config["num_attention_heads"], 2)
        self.assertEqual(config["num_key_value_heads"], 1)
        self.assertEqual(config["head_dim"], 4)
        self.assertEqual(config["vocab_size"], 3)
        self.assertEqual(config["rms_norm_eps"], 0.5)
        self.assertEqual(config["rope_theta"], 10000.0)
        self.assertTrue(config["tie_word_embeddings"])
        head = ("output.weight", (3, 8), converter.F16, bytes(48))
        config, tensors = convert(make_gguf([*self.TENSORS, head]))
        self.assertFalse(config["tie_word_embeddings"])
        self.assertIn("lm_head.weight", tensors)

    def test_what_would_come_out_wrong_is_refused_by_name(self):
        quantised = ("blk.0.ffn_up.weight", (16, 8), 3, bytes(80))
        bias = ("blk.0.attn_q.bias", (8,), converter.F32, bytes(32))
        cases = (
            (b"GGML" + bytes(64), "does not begin with GGUF"),
            (make_gguf(self.TENSORS, "gemma3"), "architecture gemma3"),
            (make_gguf([*self.TENSORS, quantised]), "blk.0.ffn_up.weight has type 3"),
            (make_gguf([*self.TENSORS, bias]), "blk.0.attn_q.bias"),
        )
        for gguf, reason in cases:
            with self.assertRaisesRegex(converter.NotConvertible, reason):
                convert(gguf)


if __name__ == "__main__":
    unittest.main()
