// SPDX-License-Identifier: Apache-2.0
// Makes the documents that forgetting is measured on: what is computed and then compressed, and
// what follows it and is scored. Layer: engine.
//
// Plain data, made from a text and a seed alone; the same text, settings and tokenizer give the
// same documents, and more windows or needle documents are added to those, so that what was
// measured on fewer stays of use. docs/eval.md describes them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/vocabulary.h"
#include "swiftkv/status.h"

namespace swiftkv {

enum class TaskKind : std::uint8_t {
  kText,         // the text goes on
  kCopy,         // the prefix again
  kNeedle,       // one planted fact is asked for
  kMultiNeedle,  // of several facts of one form, one is asked for
};

// Returns "text", "copy", "needle" or "multi_needle".
const char* TaskKindName(TaskKind kind);

// What follows the compressed prefix; each continuation of a document starts from it anew.
struct Continuation {
  std::vector<TokenId> tokens;
  int first_scored = 1;  // tokens [first_scored, end) count, each predicted by the one before; >= 1
};

struct RecallDocument {
  TaskKind kind = TaskKind::kText;
  std::string name;                         // unique among the documents of a task set
  std::uint64_t number = 0;                 // among those of texts, of copies or with facts
  int length = 0;                           // tokens that were asked for, of prefix or window
  double depth = 0;                         // of the planted fact, 0 first, 1 last; needles only
  bool question_inside = false;             // the question is part of what is compressed
  std::vector<TokenId> prefix;              // computed, then compressed
  std::vector<Continuation> continuations;  // not empty
};

struct RecallSettings {
  TokenId bos = kNoToken;    // first of every prefix; none where the model adds none
  int context = 2048;        // most tokens of a document
  int scored_tokens = 512;   // of a text after its prefix, at most half of the context
  int text_windows = 4;      // documents of kText and kCopy each, as far as the text reaches
  int needle_documents = 1;  // of each length and depth
  int keys = 5;              // facts in a document of kMultiNeedle
  std::vector<int> lengths;  // of needle documents; empty: a quarter, half and all
  std::vector<double> depths = {0.1, 0.3, 0.5, 0.7, 0.9};
  std::uint64_t seed = 1;
};

// Turns plain text that stands somewhere within a prompt into tokens.
using Tokenizer = std::function<Result<std::vector<TokenId>>(std::string_view)>;

// Least tokens of a context that documents are made for.
inline constexpr int kLeastRecallContext = 256;

// Returns documents of all kinds. `text` is the tokens of the text without BOS; windows that it
// does not fill are left out, and needles are planted in it from the start again where it ends.
// Errors: InvalidArgument for a context below kLeastRecallContext, a text with less than half of
// one, lengths or depths out of range; those of the tokenizer.
Result<std::vector<RecallDocument>> MakeRecallDocuments(std::span<const TokenId> text,
                                                        const RecallSettings& settings,
                                                        const Tokenizer& tokenizer);

}  // namespace swiftkv
