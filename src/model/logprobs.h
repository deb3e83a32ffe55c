// SPDX-License-Identifier: Apache-2.0
// Computes log-probabilities from raw logits, before any sampling step. Layer: model.
#pragma once

#include <span>
#include <vector>

#include "model/vocabulary.h"
#include "swiftkv/sampler_options.h"

namespace swiftkv {

// Returns the log-softmax of `logits` at `token`. `logits`: [vocabulary size] f32, finite or
// -infinity.
TokenLogprob LogprobOf(std::span<const float> logits, TokenId token);

// Returns the `count` most likely tokens, best first, the lower id first among equals; all of them
// where there are fewer.
std::vector<TokenLogprob> TopLogprobs(std::span<const float> logits, int count);

}  // namespace swiftkv
