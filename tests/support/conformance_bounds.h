// SPDX-License-Identifier: Apache-2.0
// States how far our logits may lie from libllama's, and checks rows against that.
#pragma once

#include <string>

#include "support/logits.h"
#include "support/tiny_model.h"

namespace swiftkv {

// Returns the most that any logit may differ from libllama's with an F32 cache. gemma3's GELU is a
// table of halves in ggml, where a last bit's difference becomes 1e-3.
float LogitBound(TinyFamily family, const std::string& format);

// Fails the running test where any logit of any row differs by more than `bound`, or where the best
// tokens differ although the oracle's gap is larger than `bound`. Reports the first bad row and the
// largest difference.
void ExpectLogitsNear(const Logits& oracle, const Logits& ours, float bound,
                      const std::string& what);

}  // namespace swiftkv
