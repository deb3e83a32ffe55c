// SPDX-License-Identifier: Apache-2.0
// Finds what guides the rounding of a model's keys, from the queries of a text. Layer: engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "model/language_model.h"
#include "swiftkv/rounding_guide.h"
#include "swiftkv/status.h"

namespace swiftkv {

// More tokens change the guides little.
inline constexpr int kGuideTokens = 512;

// Returns how many tokens a cache of `kv_bytes` has room for while guides are measured, at most
// kGuideTokens and the model's context. Below 16 none are measured.
int GuideTokensWithin(const LanguageModel& model, std::uint64_t kv_bytes);

// Runs the first kGuideTokens of `tokens`, or what GuideTokensWithin allows, through the model,
// over a cache of its own within `kv_bytes` that is gone afterwards, and returns the guides of
// every layer and kv head; null, so that values go to their nearest codes, where the bound leaves
// no room. The same model, text and threads' arithmetic give the same guides. Errors:
// InvalidArgument for no tokens; those of Forward.
Result<std::shared_ptr<const KeyGuides>> MeasureKeyGuides(LanguageModel* model,
                                                          std::span<const TokenId> tokens,
                                                          std::uint64_t kv_bytes,
                                                          const std::atomic<bool>* cancel);

}  // namespace swiftkv
