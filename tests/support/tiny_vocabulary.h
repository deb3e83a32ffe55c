// SPDX-License-Identifier: Apache-2.0
// Makes the small vocabularies of tiny models: SentencePiece-like and byte-level BPE.
//
// Both cover every byte, so any text round-trips, and both hold a few longer pieces, so that
// merging is exercised.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/tiny_model.h"

namespace swiftkv {

struct TinyVocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;       // as in tokenizer.ggml.token_type
  std::vector<float> scores;        // SPM only
  std::vector<std::string> merges;  // BPE only: "left right"

  // Returns the id of the token with exactly this text; it must exist.
  int32_t IdOf(const std::string& text) const;
};

// `tokenizer.kind` must not be kNone.
TinyVocabulary MakeTinyVocabulary(const TinyTokenizer& tokenizer);

}  // namespace swiftkv
