// SPDX-License-Identifier: Apache-2.0
// Times passes of a team of threads and repeats those that something else disturbed.
//
// A pass is one call of a function on every thread of the team. Its time is that of thread 0 from a
// barrier before to a barrier after; threads spin at barriers, so that all of them compute from the
// first to the last moment, and CPU time that is missing was taken by somebody else.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/thread_team.h"

namespace swiftkv {

// Holds every thread of a team until all have come. Spins, and yields when that takes long.
class SpinBarrier {
 public:
  explicit SpinBarrier(int num_threads) : num_threads_(num_threads) {}

  void Wait();

 private:
  const int num_threads_;
  std::atomic<int> waiting_{0};
  std::atomic<unsigned> generation_{0};
};

// A thread's place in the pass, and the barrier for phases within it.
struct PassThread {
  int thread = 0;
  int num_threads = 1;
  SpinBarrier* barrier = nullptr;
};

using Pass = std::function<void(const PassThread&)>;

struct PassTime {
  double seconds = 0;
  double busy = 0;  // CPU time of all threads by time; the number of threads where undisturbed
};

// Whether the threads got less than .97 of the pass's time.
bool IsDisturbed(const PassTime& time, int num_threads);

PassTime TimePass(const Pass& pass, ThreadTeam* team);

struct RoundOptions {
  int rounds = 5;
  int least_rounds = 3;
  double budget_seconds = 1.5;  // once spent, rounds beyond the least are left out
};

// Times of several passes, taken in turn: a round runs each of them once.
struct RoundTimes {
  std::vector<std::vector<double>> seconds;  // [pass][round]
  int rejected = 0;   // passes that were repeated because they were disturbed
  int disturbed = 0;  // passes that stayed disturbed when repeated, and count
};

// A disturbed pass counts only when several repetitions fare no better.
RoundTimes TimeRounds(std::span<const Pass> passes, const RoundOptions& options, ThreadTeam* team);

// Returns the middle value, or the mean of the two in the middle; `values` is not empty.
double Median(std::vector<double> values);

// Returns the median of numerator[i] / denominator[i].
double MedianRatio(std::span<const double> numerators, std::span<const double> denominators);

}  // namespace swiftkv
