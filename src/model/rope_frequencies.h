// SPDX-License-Identifier: Apache-2.0
// Says by how much a layer's rotary embedding turns each pair of channels from one position to the
// next.
//
// Everything that scales a model's rotation (a factor, factors by pair, YaRN's blend) leaves the
// angle proportional to the position, so that one frequency a pair says it all.
#pragma once

#include <span>
#include <vector>

#include "model/decoder_spec.h"

namespace swiftkv {

struct RopeFrequencies {
  std::vector<float> frequencies;  // [rope.dims / 2] radians a position
  RopeLayout layout = RopeLayout::kInterleaved;
  float magnitude = 1.0F;  // that the rotated channels are multiplied by
};

// `factors`, [rope.dims / 2] or empty, divide the frequencies (Llama 3, LongRoPE). YaRN blends
// scaled and unscaled frequencies by the number of turns that a pair makes within the original
// context (arXiv:2309.00071, section 3.2).
RopeFrequencies FrequenciesOf(const RopeSpec& rope, std::span<const float> factors);

}  // namespace swiftkv
