// SPDX-License-Identifier: Apache-2.0
// Plays a server whose queue is never empty: a batch of seats that requests take in turn.
//
// In its first step a request stores its whole prompt, in each later one a token, until all of its
// tokens are stored; in the step after that the next request has its seat. So every seat is taken
// in every step.
#pragma once

#include <span>
#include <vector>

#include "tools/bench_lengths.h"

namespace swiftkv {

struct BatchSeat {
  RequestLengths lengths;   // of the request that has it
  int tokens = 0;           // stored so far, those of this step included
  int new_tokens = 0;       // of them in this step
  bool is_started = false;  // the request took the seat in this step
};

class SaturatedSchedule {
 public:
  // `requests` outlive the object.
  SaturatedSchedule(std::span<const RequestLengths> requests, int batch)
      : requests_(requests), seats_(static_cast<std::size_t>(batch)) {}

  // Moves on by a step. False where too few requests are left to fill every seat; the seats are
  // then as they were.
  bool Step();

  std::span<const BatchSeat> seats() const { return seats_; }
  // The share of the requests that have started.
  double progress() const;

 private:
  std::span<const RequestLengths> requests_;
  std::size_t next_ = 0;  // request
  std::vector<BatchSeat> seats_;
};

}  // namespace swiftkv
