// SPDX-License-Identifier: Apache-2.0
// Reads what scorers look at out of the cache's pages. Layer: engine.
//
// Pages are read through their codecs, so that scores are of what is stored. Reading only: any
// number of threads may do it, while nothing changes the cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/score_inputs.h"
#include "swiftkv/page_view.h"

namespace swiftkv {

// What one kv head of one layer holds before some position, in the order of positions.
struct HeadCapture {
  std::vector<std::int32_t> positions;  // [tokens] original, ascending
  std::vector<std::size_t> slots;       // [tokens] which of the slots of all runs, in their order
  std::vector<float> keys;              // [tokens, head_dim] post-RoPE; empty unless needed
  std::vector<float> value_norms;       // [tokens] L2; likewise
};

struct CaptureTask {
  std::span<const PageRun> runs;  // of the layer, as KvCache::AppendRuns gives them
  int head = 0;
  int head_dim = 0;
  std::int64_t end = 0;  // entries before this position are read
  ScoreNeeds needs;
};

// Fills `capture`, whose memory is used again.
void CaptureHead(const CaptureTask& task, HeadCapture* capture);

}  // namespace swiftkv
