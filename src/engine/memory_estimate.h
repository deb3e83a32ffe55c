// SPDX-License-Identifier: Apache-2.0
// Estimates what a choice may need of the cache before others give anything back. Layer: engine.
//
// Pure. Admission goes by it: what is promised to all who run must be there, so that a place is not
// taken back as soon as it was given. So it errs upwards: blocks that are shared in part are copied
// before they are written, a step stores all its rows before anything is re-encoded or leaves a
// window, and window frames of others make no room. What describes pages is not counted.
#pragma once

#include <cstdint>
#include <limits>

#include "engine/kv_memory.h"

namespace swiftkv {

struct MemoryDemand {
  std::int64_t tokens = 0;     // known so far: prompt and reply
  std::int64_t computed = 0;   // of these, in the cache
  std::int64_t shared = 0;     // of these, not the choice's alone; without a place, to be found
  std::int64_t step_rows = 1;  // of a step at most
  std::int64_t growth = std::numeric_limits<std::int32_t>::max();  // tokens that may yet follow
  int further_choices = 0;    // that are to fork off once the prompt is computed
  std::int64_t reserved = 0;  // slots that a place comes with; 0: none
  bool has_reserved = false;  // has them
  std::int64_t beside = 0;  // tokens that a coming compaction keeps beside all others for a moment
};

struct MemoryEstimate {
  // What giving the place up frees, at least, unless others have computed the same.
  std::uint64_t held_bytes = 0;
  std::uint64_t bytes_to_come = 0;  // for the known tokens and the next few, at most
  std::uint64_t bytes_to_grow = 0;  // for many more than these few, at most
};

MemoryEstimate EstimateMemory(const KvFootprint& footprint, const MemoryDemand& demand);

}  // namespace swiftkv
