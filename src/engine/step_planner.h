// SPDX-License-Identifier: Apache-2.0
// Turns the scheduler's decisions into a step: gives places, reserves rows, takes places where
// memory is short. Layer: engine.
//
// Owner: the engine's thread. Admission goes by estimates; what holds is the cache's Reserve. Where
// that fails, places are taken from those who go after the needy one; where there is nobody, it
// stays out of this step, and where it is alone in the cache it can never go on and ends. So the
// choice that goes first always computes something, and no step plans for nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/roster.h"
#include "engine/step_budget.h"
#include "engine/step_plan.h"

namespace swiftkv {

class StepPlanner {
 public:
  // Both must outlive the planner. `max_rows` of a step, `max_places` of all choices together.
  StepPlanner(Roster* roster, KvCache* cache, int max_rows, int max_places)
      : roster_(roster),
        cache_(cache),
        max_rows_(max_rows),
        budget_(max_rows),
        max_places_(max_places) {}

  // Plans the next step, all of whose rows are reserved. An empty plan: nobody can compute anything
  // until something comes from outside.
  const StepPlan& Plan();

  // Tells what the forward pass of the last plan took, in seconds: the next ones are cut to it.
  void Learn(double seconds) { budget_.Learn(streams_, prompt_rows_, seconds); }

  // What Plan has spent so far on making slots of the cache writable, in seconds: new frames, and
  // the memory that the system maps for them.
  double reserving_seconds() const { return reserving_seconds_; }

  // Whose the slices of the last plan are, [slices].
  const std::vector<Seat>& seats() const { return seats_; }

  // Gives back what the last plan reserved and did not compute.
  void TakeBack();

 private:
  void GivePlaces();
  bool GivePlace(std::size_t waiting);  // false: nobody behind it gets one either
  bool TakePlace(std::size_t waiting);
  Admission Judge(std::size_t waiting) const;
  bool IsOvercommitted() const;
  // Makes the rows writable, fewer where it is alone and there is no room for all. 0: not in this
  // step.
  int Reserve(std::size_t index, int rows);
  bool TryReserve(SequenceId sequence, int rows);
  void EndForMemory(const Seat& seat);
  void ShareOut();
  bool IsAlone(std::size_t index) const;
  void AddSlice(std::size_t index, int rows);

  Roster* roster_;
  KvCache* cache_;
  const int max_rows_;
  StepBudget budget_;
  const int max_places_;
  std::uint64_t step_ = 0;
  double reserving_seconds_ = 0;
  StepPlan plan_;
  bool streams_ = false;  // somebody computed a token at a time in the last plan
  int prompt_rows_ = 0;   // of the last plan, those that were not
  std::vector<Seat> seats_;
};

}  // namespace swiftkv
