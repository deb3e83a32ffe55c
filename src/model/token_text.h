// SPDX-License-Identifier: Apache-2.0
// Turns a reply's tokens into text as they are sampled. Layer: model.
//
// Owner: one request. Joined deltas are byte-equal to TextOfTokens of the same tokens: both take
// each token's own bytes, without trimming or adding a space at the start of the reply, and never
// give out a part of a character. Control tokens, the end of a turn among them, show no text.
#pragma once

#include <span>
#include <string>

#include "base/utf8.h"
#include "model/vocabulary.h"

namespace swiftkv {

class TextStream {
 public:
  // `vocabulary` must outlive the stream.
  explicit TextStream(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  // Returns the characters that `token` completes, perhaps none.
  std::string Push(TokenId token) { return assembler_.Feed(vocabulary_->TokenToPiece(token)); }

  // Ends the reply: returns U+FFFD when its last character was cut, else nothing.
  std::string Finish() { return assembler_.Finish(); }

 private:
  const Vocabulary* vocabulary_;
  Utf8Assembler assembler_;
};

// Returns the text of a whole reply.
std::string TextOfTokens(const Vocabulary& vocabulary, std::span<const TokenId> tokens);

}  // namespace swiftkv
