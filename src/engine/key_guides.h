// SPDX-License-Identifier: Apache-2.0
// Finds what guides the rounding of a model's keys, from the queries of a text. Layer: engine.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "model/language_model.h"
#include "swiftkv/rounding_guide.h"
#include "swiftkv/status.h"

namespace swiftkv {

// More tokens change the guides little.
inline constexpr int kGuideTokens = 512;

// Runs the first kGuideTokens of `tokens` through the model, over a cache of its own that is gone
// afterwards, and returns the guides of every layer and kv head. The same model, text and threads'
// arithmetic give the same guides. Errors: InvalidArgument for no tokens; those of Forward.
Result<std::shared_ptr<const KeyGuides>> MeasureKeyGuides(LanguageModel* model,
                                                          std::span<const TokenId> tokens,
                                                          const std::atomic<bool>* cancel);

}  // namespace swiftkv
