// SPDX-License-Identifier: Apache-2.0
// Compares two next-token distributions over one vocabulary, position by position. Layer: engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/vocabulary.h"

namespace swiftkv {

// How a distribution differs from the exact one at one position.
struct Divergence {
  double kld = 0;  // KL(exact || other) in nats, at least 0; infinite where a logit is not finite
  double nll = 0;  // -log probability of the text's next token by the other, in nats
  bool same_top1 = false;  // both have the same best token, the lower id among equals
};

// `exact` and `other`: [vocabulary] f32 logits before softmax; `next`: the token that follows in
// the text.
Divergence CompareDistributions(std::span<const float> exact, std::span<const float> other,
                                TokenId next);

// What is reported of many positions.
struct DivergenceFigures {
  std::int64_t positions = 0;
  double mean_kld = 0;   // nats
  double p99_kld = 0;    // nats; 99 % of the positions do not pass it
  double same_top1 = 0;  // fraction of positions, 0..1
  double ppl = 0;        // perplexity of the text: exp of the mean nll
};

// Sums positions up; all zero where there are none.
DivergenceFigures SummarizeDivergences(std::span<const Divergence> positions);

}  // namespace swiftkv
