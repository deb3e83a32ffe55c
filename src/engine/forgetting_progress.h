// SPDX-License-Identifier: Apache-2.0
// Moves a choice along its compactions: where the next one is due, and what it may take instead.
// Layer: engine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/active_request.h"
#include "engine/memory_estimate.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

// Has the choice begin, with nothing in the cache.
void BeginForgetting(const ActiveRequest& request, ActiveChoice* choice);

// Says that it was compacted at `length`, or stands on a segment that ends there.
void AdvanceForgetting(const ActiveRequest& request, std::int64_t length, ActiveChoice* choice);

// Whether nothing can be computed before a compaction.
inline bool IsCompacting(const ActiveChoice& choice) {
  return choice.phase == ChoicePhase::kRunning && choice.forgetting.next > 0 &&
         static_cast<std::int64_t>(choice.computed) >= choice.forgetting.next;
}

// A segment that a request can start from.
struct CompressedPrefix {
  std::int64_t tokens = 0;    // 0: none
  std::string_view recipe;    // lives as long as the request's rule
  bool uses_figures = false;  // it was chosen by the model's statistics of queries
};

// Looks for one: what was compressed to be shared where it reaches about as far as the request
// would compress by itself, else what a request like this one would have left.
CompressedPrefix FindCompressed(const KvCache& cache, const ActiveRequest& request,
                                const ActiveChoice& choice);

// Has the choice stand on a segment that it finds, whatever it has computed before its first
// compaction. Returns whether it does now.
bool TakeCompressed(KvCache* cache, ActiveRequest* request, ActiveChoice* choice);

// Returns whose queries the policy of a choice that stands on no segment looks at: the model's
// where at least half of what is to be scored is there to be found. Undecided where neither is
// settled.
QueryOrigin FindQueryOrigin(const KvCache& cache, const ActiveRequest& request,
                            const ActiveChoice& choice);

// Returns the tokens that AdoptPrefix may look for: no dense blocks beyond the next compaction, and
// none whose queries the policy has to see.
std::span<const TokenId> AdoptableTokens(const ActiveRequest& request, const ActiveChoice& choice,
                                         QueryOrigin origin);

// Returns who receives the queries of what the choice computes next; null: nobody.
QuerySink* QueriesOf(const ActiveRequest& request, ActiveChoice* choice);

// Turns what a choice would need that keeps all into what it needs: tokens that were dropped, or
// will be before the others come, do not count.
MemoryDemand AfterForgetting(const ActiveRequest& request, const ActiveChoice& choice,
                             MemoryDemand demand);

}  // namespace swiftkv
