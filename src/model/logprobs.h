// SPDX-License-Identifier: Apache-2.0
// Computes log-probabilities from raw logits, before any sampling step. Layer: model.
#pragma once

#include <span>
#include <vector>

#include "model/vocabulary.h"

namespace swiftkv {

struct TokenLogprob {
  TokenId token = kNoToken;
  float logprob = 0.0F;  // natural logarithm, at most 0

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

// Returns the log-softmax of `logits` at `token`. `logits`: [vocabulary size] f32, finite or
// -infinity.
TokenLogprob LogprobOf(std::span<const float> logits, TokenId token);

// Returns the `count` most likely tokens, best first, the lower id first among equals; all of them
// where there are fewer.
std::vector<TokenLogprob> TopLogprobs(std::span<const float> logits, int count);

}  // namespace swiftkv
