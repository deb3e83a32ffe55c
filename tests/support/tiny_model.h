// SPDX-License-Identifier: Apache-2.0
// Describes tiny random-weight models, one for each thing that a family can do differently.
//
// A description is plain data: WriteTinyGguf() makes the file, and the same description gives the
// same bytes on every machine. Sizes are small enough that 256 positions cost milliseconds, and
// weights are scaled so that attention is far from uniform and the logits have a standard deviation
// near 1/2, so that a wrong rotation, mask or norm moves them by far more than the bounds under
// test.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace swiftkv {

enum class TinyFamily { kLlama, kQwen2, kQwen3, kGemma3, kPhi3 };

// Returns general.architecture, e.g. "qwen2".
const char* TinyFamilyName(TinyFamily family);

struct TinyShape {
  int layers = 3;
  int embedding = 64;  // [channels] of the residual stream
  int feed_forward = 96;
  int query_heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int vocabulary = 256;  // tokens; used by TinyVocabularyKind::kNone only
  int context = 1024;    // tokens; A.context_length
  bool tied_output = false;
};

enum class TinyRopeScaling {
  kNone,
  kLinear,
  kYarn,
  kFactors,   // a rope_freqs tensor, as Llama 3 carries it
  kLongRope,  // rope_factors_long and rope_factors_short, as Phi 3 carries them
};

struct TinyRope {
  TinyRopeScaling scaling = TinyRopeScaling::kNone;
  float freq_base = 10000.0F;
  float factor = 1.0F;       // A.rope.scaling.factor where it is not 1
  int original_context = 0;  // tokens; A.rope.scaling.original_context_length where it is not 0
  float attention_factor = 1.0F;  // A.rope.scaling.attn_factor where it is not 1
};

// Sliding-window layers (gemma3 only): every `pattern`-th layer is global.
struct TinyWindow {
  int tokens = 32;
  int pattern = 6;
};

enum class TinyVocabularyKind {
  kNone,  // ids without text
  kSpm,   // SentencePiece: 256 byte tokens and some pieces
  kBpe,   // byte-level BPE with a few merges
};

struct TinyTokenizer {
  TinyVocabularyKind kind = TinyVocabularyKind::kNone;
  // Control tokens appended after the family's own, e.g. "<|im_start|>".
  std::vector<std::string> control_tokens;
  // Texts of the special tokens; empty leaves the key out of the file.
  std::string bos;
  std::string eos;
  std::string eot;
  bool add_bos = false;
  std::string chat_template;  // Jinja; empty leaves the key out of the file
};

struct TinyModel {
  std::string name;
  TinyFamily family = TinyFamily::kLlama;
  TinyShape shape;
  TinyRope rope;
  TinyWindow window;
  TinyTokenizer tokenizer;
  uint64_t seed = 1;
  // The context to open it with, where it decides something (LongRoPE's choice of factors); tokens.
  int open_context = 512;
};

// Prints the name, so that a failing case is told by it.
std::ostream& operator<<(std::ostream& stream, const TinyModel& model);

// Returns the models that every conformance test walks, each with a distinct name fit for a test's
// name.
const std::vector<TinyModel>& TinyModels();

// Returns the row of TinyModels() with this name; the name must exist.
const TinyModel& TinyModelNamed(const std::string& name);

// Returns a ChatML tokenizer (kBpe or kSpm) whose turns end with <|im_end|> and whose EOS is
// <|endoftext|>.
TinyTokenizer TinyChatTokenizer(TinyVocabularyKind kind);

}  // namespace swiftkv
