// SPDX-License-Identifier: Apache-2.0
// Finds written-out special tokens in a prompt, control tokens only in trusted text. Layer: model.
//
// The same matching as libllama's own (longest text first, over the whole prompt), so that a prompt
// whose untrusted parts hold no control token gets the very ids that the library would give. The
// library offers trust for a whole text only; and cutting a text where trust changes would change
// ids around the cut.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/vocabulary.h"

namespace swiftkv {

// A stretch of a prompt: a special token, or text to be tokenised as plain.
struct PromptFragment {
  TokenId token = kNoToken;  // or kNoToken for text
  std::size_t begin = 0;     // bytes of the prompt, [begin, end)
  std::size_t end = 0;
  std::vector<std::size_t> cuts;  // ascending positions inside at which the text must be cut apart
};

// Bytes [begin, end) of the prompt that may hold control tokens.
struct TrustedRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

class SpecialTokens {
 public:
  explicit SpecialTokens(const llama_vocab* vocabulary);

  // Splits `prompt`. `trusted`: ascending, disjoint, not adjacent. Texts of `forbidden`
  // user-defined tokens match in trusted text only; elsewhere they are cut apart.
  std::vector<PromptFragment> Split(std::string_view prompt, std::span<const TrustedRange> trusted,
                                    std::span<const TokenId> forbidden) const;

  // Returns where texts that must not form occur in `text`, overlapping ones too: for each
  // occurrence of a control token or of one of `forbidden` the place behind its first character,
  // ascending.
  std::vector<std::size_t> BreakingPoints(std::string_view text,
                                          std::span<const TokenId> forbidden) const;

  // Returns the special token with exactly this text, or kNoToken.
  TokenId Find(std::string_view text) const;

  // Returns the user-defined tokens with punctuation whose text, white space aside, occurs in
  // `text`: what a template with that source may build turns from.
  std::vector<TokenId> MarkersWithin(std::string_view text) const;

 private:
  struct Entry {
    TokenId token = kNoToken;
    std::string text;
    bool control = false;  // or unknown: never formed by untrusted text
    bool strips_left = false;
    bool strips_right = false;
  };

  std::vector<Entry> entries_;  // longest text first
};

}  // namespace swiftkv
