// SPDX-License-Identifier: Apache-2.0
// Finds what the newest queries of a sequence read: probabilities per slot, summed over queries.
//
// Queries are kept, not probabilities, so that it does not matter in which chunks the rows were
// computed. As SnapKV's observation window needs it (arXiv:2404.14469, section 4).
#pragma once

#include <span>

#include "model/recent_queries.h"
#include "swiftkv/attention.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct ObservedLayer {
  AttentionShape shape;
  std::span<const PageRun> runs;  // what the newest query may see
  const RecentQueries& queries;
  int layer = 0;
  int threads = 1;
};

// Overwrites `sums`, [kv_heads, slots of the runs in order]. Without queries they are 0. Errors:
// what the backend does not serve.
Status SumProbabilities(const AttentionBackend& backend, const ObservedLayer& observed,
                        std::span<float> sums);

}  // namespace swiftkv
