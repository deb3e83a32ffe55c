// SPDX-License-Identifier: Apache-2.0
// Plans what of a sequence is kept, kept in a smaller format, or dropped: per layer, head and
// token, in whole pages.
//
// Pure: scores, positions and bytes in, indices out. Heads keep different tokens, always as many as
// fill their pages (but for a last page where a head runs out of tokens), so that what is dropped
// is freed to the last byte.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/budget_settings.h"
#include "swiftkv/status.h"

namespace swiftkv {

// What may be dropped of one head: its tokens before CompressibleEnd. Views.
struct HeadCandidates {
  std::span<const float> scores;            // [tokens] finite; higher is kept longer
  std::span<const std::int32_t> positions;  // [tokens] original, ascending
  // What RankedOrder returns of the others, where it is known already; empty: it is found out.
  std::span<const std::int32_t> order = {};
};

struct PlannedLayer {
  int layer = 0;
  int window = 0;                         // layers with one are spared
  std::uint64_t dense_page_bytes = 0;     // of one head's page in the sequence's own blocks
  std::vector<std::uint64_t> page_bytes;  // [formats] of a kept page, its positions included; falls
  std::vector<HeadCandidates> heads;      // [kv_heads]
};

struct PlanInputs {
  std::span<const PlannedLayer> layers;  // ascending
  std::int64_t length = 0;               // logical, of the whole sequence
  std::uint64_t spared_bytes = 0;        // of its layers with a window; counts in kBytes only
};

// What is kept of one head: indices of its candidates, ascending, for each format.
struct HeadPlan {
  int layer = 0;
  int head = 0;
  std::vector<std::vector<std::int32_t>> kept;  // [formats]
};

enum class PlanOutcome : std::uint8_t {
  kTooShort,  // nothing is to be done: shorter than the shortest length, or nothing to drop
  kFits,      // nothing is to be done: the budget holds all as it is
  kCompress,
};

struct PagePlan {
  PlanOutcome outcome = PlanOutcome::kTooShort;
  std::vector<HeadPlan> heads;  // of the layers without a window, in order; empty unless kCompress
  // All three count layers without a window.
  std::uint64_t budget_bytes = 0;  // what was asked for
  std::uint64_t bytes = 0;         // kept pages and the newest tokens' blocks
  std::uint64_t dense_bytes = 0;   // the same before
  // Sinks and newest tokens alone take more than the budget: `bytes` is what they take.
  bool guards_exceed_budget = false;
  std::int64_t kept_tokens = 0;  // over all heads, of the candidates
  std::int64_t dropped_tokens = 0;
};

// Errors: those of CheckBudget; InvalidArgument for a budget in bytes below what is spared in a
// sequence of any length, and for another number of formats than shares.
Result<PagePlan> PlanPages(const BudgetSettings& settings, const PlanInputs& inputs);

}  // namespace swiftkv
