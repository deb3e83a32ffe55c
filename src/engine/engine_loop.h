// SPDX-License-Identifier: Apache-2.0
// Runs the engine's thread: take what has come, plan a step, execute it, commit it. Layer: engine.
//
// Owner: the engine's thread, but for Snapshot. Model and cache are touched by Run alone. What
// other threads see lies behind three locks, of which no two are ever held together: the inbox's, a
// stream's and the snapshot's.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "engine/compaction_stage.h"
#include "engine/engine_inbox.h"
#include "engine/executor.h"
#include "engine/request_gate.h"
#include "engine/roster.h"
#include "engine/sampling_stage.h"
#include "engine/statistics_recorder.h"
#include "engine/step_planner.h"
#include "swiftkv/engine.h"

namespace swiftkv {

class EngineLoop {
 public:
  // The parts and the inbox must outlive the loop.
  EngineLoop(const EngineParts& parts, const EngineLimits& limits, EngineInbox* inbox);

  // Serves until the inbox says stop; all requests have ended then. `abandon`, once true, ends a
  // forward pass before its time.
  void Run(const std::atomic<bool>* abandon);

  // Any thread.
  EngineSnapshot Snapshot() const;
  EngineReport Report() const;

 private:
  void Accept(EngineInbox::Mail mail);
  void Compute(const StepPlan& plan, const std::atomic<bool>* abandon);
  void Commit(const StepPlan& plan, std::span<const float> logits);
  void Compact();
  void EndCompressed(const Seat& seat);
  void Take(const Seat& seat, std::span<const float> logits);
  void Sample(const Seat& seat, std::span<const float> logits);
  void SampleOne(ActiveRequest* request, ActiveChoice* choice, std::span<const float> logits);
  void FailStep(const Status& status);
  void Publish();

  EngineInbox* inbox_;
  KvCache* cache_;
  std::size_t vocabulary_size_;
  StatisticsRecorder recorder_;
  Roster roster_;
  StepPlanner planner_;
  CompactionStage compaction_;
  Executor executor_;
  SamplingStage sampling_;
  std::int64_t now_ms_ = 0;  // the cache's time
  bool went_on_ = false;     // after a compaction, since the last plan
  EngineSnapshot counted_;   // what is counted here

  mutable std::mutex snapshot_mutex_;
  EngineReport report_;  // guarded by snapshot_mutex_
};

}  // namespace swiftkv
