// SPDX-License-Identifier: Apache-2.0
// Joins what a text stream gives out.
#include "model/token_text.h"

namespace swiftkv {

std::string TextOfTokens(const Vocabulary& vocabulary, std::span<const TokenId> tokens) {
  TextStream stream(vocabulary);
  std::string text;
  for (const TokenId token : tokens) text += stream.Push(token);
  return text + stream.Finish();
}

}  // namespace swiftkv
