// SPDX-License-Identifier: Apache-2.0
// Holds what a reply is asked for and what came of it, as plain data. Layer: engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/forgetting_rule.h"
#include "model/vocabulary.h"
#include "swiftkv/request.h"
#include "swiftkv/sampler_options.h"

namespace swiftkv {

struct GenerationRequest {
  std::vector<TokenId>
      prompt;  // whole prompt; what the sequence already holds is not computed again
  SamplerOptions sampling;
  int max_tokens = -1;  // -1: until the reply ends or a limit is reached
  std::shared_ptr<const ForgettingRule> forgetting = nullptr;  // null: forgets nothing
};

// What the generation tells while it runs. Called on the thread that generates.
struct GenerationCallbacks {
  // `done` of `total` prompt tokens are in the cache, those found there included.
  std::function<void(std::size_t done, std::size_t total)> on_prompt;
  // Whole characters of the reply; returning false withdraws the request.
  std::function<bool(std::string_view text)> on_text;
};

// Times are of the monotonic clock, in seconds.
struct GenerationTimes {
  double first_token = 0;  // from the request to its first sampled token
  double prefill = 0;      // computing the prompt
  double decode = 0;       // from the first sampled token to the last, without compactions
  double compaction = 0;   // scoring, planning and moving what is kept
};

struct GenerationResult {
  std::string text;
  std::vector<TokenId> tokens;   // of the reply, without the token that ended it
  TokenId end_token = kNoToken;  // the one that ended it, where the reason is kStop
  FinishReason reason = FinishReason::kStop;
  LengthLimit limit = LengthLimit::kNone;
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // of the prompt, found in the sequence
  // Why no more was found, and where the prompt left what the sequence held (kTokenDiffers; else
  // -1).
  PrefixEnd prefix_end = PrefixEnd::kNeverSeen;
  std::int64_t prefix_differs_at = -1;
  std::size_t decode_steps = 0;  // forward passes after the prompt's
  int compactions = 0;
  std::uint64_t seed = 0;  // in use, given or drawn
  GenerationTimes times;

  // Tokens a second; 0 where nothing was computed.
  double PrefillRate() const;
  double DecodeRate() const;
};

}  // namespace swiftkv
