// SPDX-License-Identifier: Apache-2.0
// States how far our logits may lie from libllama's, and checks rows against that.
#pragma once

#include <string>

#include "model/linear_backend.h"
#include "support/logits.h"
#include "support/tiny_model.h"

namespace swiftkv {

// Returns the most that any logit may differ from libllama's with an F32 cache. gemma3's GELU is a
// table of halves in ggml, where a last bit's difference becomes 1e-3.
float LogitBound(TinyFamily family, const std::string& format);

// Whether this machine's backend multiplies floats rounded to bf16 on both sides, so that logits of
// models with F32 and F16 weights differ by kBf16LogitBound at most, and mean KLD by kBf16Kld.
bool RoundsFloats(const LinearBackendRow& row);
inline constexpr float kBf16LogitBound = 0.3F;
inline constexpr double kBf16Kld = 1e-3;

// Fails the running test where any logit of any row differs by more than `bound`, or where the best
// tokens differ although the oracle's gap is larger than `bound`. Reports the first bad row and the
// largest difference.
void ExpectLogitsNear(const Logits& oracle, const Logits& ours, float bound,
                      const std::string& what);

}  // namespace swiftkv
