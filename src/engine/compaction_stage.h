// SPDX-License-Identifier: Apache-2.0
// Works on the compactions that are due, a slice of time after each step. Layer: engine.
//
// Owner: the engine's thread. A choice whose compaction is due computes nothing until it is done;
// all others go on, and wait for a slice at most. How the work is sliced changes nothing in what is
// kept.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_team.h"
#include "engine/roster.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

// A choice whose compaction is over. Where it failed, so has its request.
struct CompactedChoice {
  Seat seat;
  Status status;
};

class CompactionStage {
 public:
  // All must outlive the stage. The model's threads score.
  CompactionStage(Roster* roster, KvCache* cache, const LanguageModel* model);

  // Works on what is due, in the order of arrival, until there is nothing to do or the slice is
  // over. Returns the choices that go on now.
  std::vector<CompactedChoice> Work();

  // Whether anything was left that the next call can go on with.
  bool has_work() const { return has_work_; }

 private:
  enum class Progress : std::uint8_t { kGoesOn, kDone, kWaits };
  // Errors: those of CompactionJob, but for want of room.
  Result<Progress> Advance(const Seat& seat);
  Result<Progress> Compact(const Seat& seat);

  Roster* roster_;
  KvCache* cache_;
  const LanguageModel* model_;
  ThreadTeam team_;
  bool has_work_ = false;
};

}  // namespace swiftkv
