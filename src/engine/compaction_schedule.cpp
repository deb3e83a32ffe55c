// SPDX-License-Identifier: Apache-2.0
// Computes the lengths.
#include "engine/compaction_schedule.h"

#include <algorithm>
#include <bit>

#include "swiftkv/page_codec.h"

namespace swiftkv {
namespace {

// Rounds down to a 32nd of the power of two below, in whole blocks: prompts that differ in their
// last question mostly round alike, and at most 1/32 more than asked for stays dense.
std::int64_t CoarseLength(std::int64_t tokens) {
  if (tokens < kPageTokens) return 0;
  const auto part = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(tokens))) /
                    (2 * kPageTokens);
  const std::int64_t cell = std::max<std::int64_t>(kPageTokens, part / kPageTokens * kPageTokens);
  return tokens / cell * cell;
}

}  // namespace

std::int64_t CompactionSchedule::NextAfter(std::int64_t prompt_tokens, std::int64_t last) const {
  switch (when) {
    case When::kNever:
      return 0;
    case When::kWithinPrompt: {
      if (prompt_tokens < shortest) return 0;
      // The last token is always computed after it, for its logits.
      const std::int64_t at = CoarseLength(prompt_tokens - std::max<std::int64_t>(newest, 1));
      // What was compacted before is done again only where enough has come on top.
      const bool worth_it = last == 0 ? at > 0 : at - last >= std::max(shortest, kPromptStretch);
      return worth_it ? at : 0;
    }
    case When::kAfterPrompt:
      return prompt_tokens >= shortest && last < prompt_tokens ? prompt_tokens : 0;
    case When::kAtBudget: {
      const std::int64_t full = last + budget - (last == 0 ? 0 : target);
      if (last >= prompt_tokens) return full;
      if (prompt_at_once) return std::max(full, prompt_tokens);
      const std::int64_t stretched = std::max(full, last + kPromptStretch);
      return stretched < prompt_tokens ? stretched : std::max(full, prompt_tokens);
    }
  }
  return 0;
}

std::int64_t CompactionSchedule::HeldAfter(std::int64_t length) const {
  const auto kept = [this](std::int64_t tokens) {
    return static_cast<std::int64_t>((1 - ratio) * static_cast<double>(tokens));
  };
  switch (when) {
    case When::kNever:
      return length;
    case When::kWithinPrompt:
      return std::max<std::int64_t>(kPageTokens, kept(length + newest) - newest);
    case When::kAfterPrompt:
      return kept(length);
    case When::kAtBudget:
      return std::min(length, target);
  }
  return length;
}

std::int64_t CompactionSchedule::MostHeld(std::int64_t prompt_tokens, std::int64_t tokens) const {
  if (when != When::kAtBudget) return tokens;
  const std::int64_t in_prompt =
      prompt_at_once ? prompt_tokens : std::max(budget, target + kPromptStretch);
  return std::min(tokens, prompt_tokens > budget ? in_prompt : budget);
}

}  // namespace swiftkv
