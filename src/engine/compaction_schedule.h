// SPDX-License-Identifier: Apache-2.0
// Says at which lengths a sequence is compacted. Layer: engine.
//
// Pure: lengths follow from the prompt's length and the settings alone, never from what the cache
// holds, how steps were cut or who else is served. So a prompt is computed over the same tokens
// whenever it comes, cold, beside others or again after a preemption, and what it leaves behind can
// serve whoever would have made the same.
#pragma once

#include <cstdint>

namespace swiftkv {

struct CompactionSchedule {
  enum class When : std::uint8_t {
    kNever,
    // Once, so many tokens before the prompt's end that later ones of nearly the same length are
    // compacted at the same place; what follows is computed over what is kept.
    kWithinPrompt,
    kAfterPrompt,  // once, when all of the prompt is known
    // Whenever a head holds as many tokens on average as the budget has.
    kAtBudget,
  };

  When when = When::kNever;
  std::int64_t newest = 0;    // kWithinPrompt: tokens before the prompt's end that stay dense
  std::int64_t shortest = 0;  // shorter prompts stay as they are; not with kAtBudget
  std::int64_t budget = 0;    // kAtBudget: tokens that a head holds at most between two steps
  std::int64_t target = 0;    // kAtBudget: that it is brought back to
  double ratio = 0;           // of the others: the fraction that is removed
  // kAtBudget: a prompt is not compacted before its end, which is the question.
  bool prompt_at_once = false;

  // Tokens of a prompt that come between two compactions, however small the budget is.
  static constexpr std::int64_t kPromptStretch = 512;

  // Returns the length at which a sequence that was last compacted at `last` (0: never) is
  // compacted next; 0 for not at all.
  std::int64_t NextAfter(std::int64_t prompt_tokens, std::int64_t last) const;

  // Returns the tokens that a head holds on average after a compaction at `length`.
  std::int64_t HeldAfter(std::int64_t length) const;

  // Returns the most tokens that a head holds at any time, for a sequence of `tokens` tokens of
  // which `prompt_tokens` are the prompt.
  std::int64_t MostHeld(std::int64_t prompt_tokens, std::int64_t tokens) const;
};

}  // namespace swiftkv
