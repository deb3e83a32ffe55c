#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts a GGUF of the Llama architecture into a folder that Hugging Face's loaders take: weights
as bf16 safetensors and config.json, no tokenizer.

Usage: gguf_to_safetensors.py GGUF FOLDER

Reads F32, F16 and BF16 tensors; llama-quantize rewrites others. Needs nothing outside the standard
library. Formats: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and
https://huggingface.co/docs/safetensors.
"""

import array
import dataclasses
import json
import math
import mmap
import pathlib
import struct
import sys

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
SCALARS[12] = "d"
STRING, ARRAY = 8, 9
ITEM_BYTES = {0: 4, 1: 2, 30: 2}  # F32, F16, BF16
F32, F16, BF16 = ITEM_BYTES
OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
INNER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class NotConvertible(Exception):
    """A file that this converter does not take, with the reason in one line."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Where a tensor lies in the file; its shape has the outermost dimension first."""

    name: str
    shape: tuple
    kind: int
    start: int  # byte in the file

    def size(self):
        """Returns the bytes that it takes."""
        count = ITEM_BYTES[self.kind]
        for extent in self.shape:
            count *= extent
        return count


class Cursor:
    """Reads little-endian values one after the other."""

    def __init__(self, data):
        self.data, self.offset = data, 0

    def take(self, layout):
        """Returns one value of struct's type `layout`."""
        if self.offset + struct.calcsize("<" + layout) > len(self.data):
            raise NotConvertible(f"the file ends within its header, at {len(self.data)} bytes")
        (value,) = struct.unpack_from("<" + layout, self.data, self.offset)
        self.offset += struct.calcsize("<" + layout)
        return value

    def text(self):
        """Returns a string: its length, then its bytes."""
        count = self.take("Q")
        self.offset += count
        return bytes(self.data[self.offset - count : self.offset]).decode("utf-8", "replace")

    def value(self, kind):
        """Returns a metadata value of GGUF's type `kind`."""
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            inner, count = self.take("I"), self.take("Q")
            return [self.value(inner) for _ in range(count)]
        if kind not in SCALARS:
            raise NotConvertible(f"metadata of type {kind}; GGUF knows 0 to 12")
        return self.take(SCALARS[kind])


def read_gguf(data):
    """Returns (metadata, tensors) of a GGUF's bytes."""
    cursor = Cursor(data)
    if bytes(data[:4]) != b"GGUF":
        raise NotConvertible("the file does not begin with GGUF")
    cursor.offset = 8
    tensor_count, value_count = cursor.take("Q"), cursor.take("Q")
    metadata = {}
    for _ in range(value_count):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.take("I"))
    found = []
    for _ in range(tensor_count):
        name = cursor.text()
        shape = tuple(cursor.take("Q") for _ in range(cursor.take("I")))[::-1]
        found.append((name, shape, cursor.take("I"), cursor.take("Q")))
    alignment = metadata.get("general.alignment", 32)
    begin = -(-cursor.offset // alignment) * alignment
    for name, shape, kind, offset in found:
        if kind not in ITEM_BYTES:
            raise NotConvertible(f"tensor {name} has type {kind}; F32, F16 or BF16 are read")
        size = math.prod(shape) * ITEM_BYTES[kind]
        if begin + offset + size > len(data):
            raise NotConvertible(f"the file ends within tensor {name}, at {len(data)} bytes")
    return metadata, [Tensor(*row[:3], begin + row[3]) for row in found]


def bf16_of_f32(bits):
    """Returns the bf16 bits nearest to an f32's bits, ties to even; NaN stays NaN."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def bf16_of_f16():
    """Returns the table of bf16 bits for each of the 65,536 values of f16."""
    halves = struct.unpack("<65536e", array.array("H", range(65536)).tobytes())
    return [bf16_of_f32(bits) for bits in struct.unpack("<65536I", struct.pack("<65536f", *halves))]


def to_bf16(raw, kind, table):
    """Returns a tensor's bytes as bf16; `table` is bf16_of_f16's."""
    if kind == BF16:
        return bytes(raw)
    if kind == F16:
        return array.array("H", map(table.__getitem__, array.array("H", raw))).tobytes()
    return array.array("H", map(bf16_of_f32, array.array("I", raw))).tobytes()


def halves_apart(raw, heads, rows):
    """Returns rows of a projection in the order of split-half rope. GGUF's Llama keeps the two
    elements that rope turns together side by side: first half and second half interleaved."""
    width = len(raw) // rows
    head = rows // heads
    order = [
        first + 2 * row + half
        for first in range(0, rows, head)
        for half in (0, 1)
        for row in range(head // 2)
    ]
    return b"".join(raw[row * width : (row + 1) * width] for row in order)


def target_name(name):
    """Returns Hugging Face's name of a tensor; None for what follows from the configuration."""
    if name in OUTER:
        return OUTER[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in INNER and parts[3] == "weight":
        return f"model.layers.{parts[1]}.{INNER[parts[2]]}.weight"
    raise NotConvertible(f"tensor {name}; a plain Llama has no such tensor")


def make_config(metadata, tensors):
    """Returns config.json's content."""
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise NotConvertible(f"architecture {architecture}; only llama is converted")
    scaling = metadata.get("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise NotConvertible(f"rope scaling {scaling}; only none is converted")
    heads = metadata["llama.attention.head_count"]
    hidden = metadata["llama.embedding_length"]
    names = {tensor.name: tensor for tensor in tensors}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": metadata["llama.feed_forward_length"],
        "num_hidden_layers": metadata["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": metadata.get("llama.attention.head_count_kv", heads),
        "head_dim": metadata.get("llama.attention.key_length", hidden // heads),
        "max_position_embeddings": metadata["llama.context_length"],
        "rms_norm_eps": metadata["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": metadata.get("llama.rope.freq_base", 10000.0),
        "vocab_size": names["token_embd.weight"].shape[0],
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id", 1),
        "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id", 2),
        "tie_word_embeddings": "output.weight" not in names,
        "attention_bias": False,
        "mlp_bias": False,
    }


def safetensors_header(tensors):
    """Returns the bytes before the tensors, which follow in the given order as bf16."""
    entries, offset = {"__metadata__": {"format": "pt"}}, 0
    for tensor in tensors:
        end = offset + tensor.size() // ITEM_BYTES[tensor.kind] * 2
        entries[target_name(tensor.name)] = {
            "dtype": "BF16",
            "shape": tensor.shape,
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def convert(source, folder):
    """Writes config.json and model.safetensors for the GGUF `source` into an existing folder."""
    with open(source, "rb") as handle, mmap.mmap(
        handle.fileno(), 0, access=mmap.ACCESS_READ
    ) as data:
        metadata, tensors = read_gguf(data)
        config = make_config(metadata, tensors)
        heads = {
            "attn_q": config["num_attention_heads"],
            "attn_k": config["num_key_value_heads"],
        }
        table = bf16_of_f16()
        with open(folder / "model.safetensors", "wb") as target:
            target.write(safetensors_header(tensors))
            for tensor in tensors:
                raw = data[tensor.start : tensor.start + tensor.size()]
                projection = tensor.name.split(".")[-2]
                if projection in heads:
                    raw = halves_apart(raw, heads[projection], tensor.shape[0])
                target.write(to_bf16(raw, tensor.kind, table))
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def main():
    """Converts the file that the command line names."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        convert(sys.argv[1], folder)
    except NotConvertible as failure:
        print(f"gguf_to_safetensors.py: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
