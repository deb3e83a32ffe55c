// SPDX-License-Identifier: Apache-2.0
// Implements timing of passes with the clocks of POSIX.
#include "tools/bench_pass.h"

#include <time.h>

#include <algorithm>
#include <thread>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace swiftkv {
namespace {

constexpr double kLeastBusy = 0.97;  // of a thread's time
constexpr int kTries = 4;            // of one pass in one round

double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

void SpinBarrier::Wait() {
  constexpr int kSpins = 1 << 14;
  const unsigned generation = generation_.load(std::memory_order_acquire);
  if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == num_threads_) {
    waiting_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; ++spins) {
    if (spins < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

bool IsDisturbed(const PassTime& time, int num_threads) {
  return time.busy < kLeastBusy * num_threads;
}

PassTime TimePass(const Pass& pass, ThreadTeam* team) {
  SpinBarrier barrier(team->num_threads());
  std::vector<double> cpu(static_cast<std::size_t>(team->num_threads()));
  double seconds = 0;
  team->Run([&](int thread, int num_threads) {
    barrier.Wait();
    const double start = Seconds(CLOCK_MONOTONIC);
    const double cpu_start = Seconds(CLOCK_THREAD_CPUTIME_ID);
    pass({thread, num_threads, &barrier});
    barrier.Wait();
    cpu[static_cast<std::size_t>(thread)] = Seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
    if (thread == 0) seconds = Seconds(CLOCK_MONOTONIC) - start;
  });
  PassTime time;
  time.seconds = seconds;
  for (const double thread_seconds : cpu) time.busy += thread_seconds;
  time.busy /= std::max(seconds, 1e-9);
  return time;
}

RoundTimes TimeRounds(std::span<const Pass> passes, const RoundOptions& options, ThreadTeam* team) {
  RoundTimes times;
  times.seconds.resize(passes.size());
  const int threads = team->num_threads();
  const double start = Seconds(CLOCK_MONOTONIC);
  for (int round = 0; round < options.rounds; ++round) {
    const double spent = Seconds(CLOCK_MONOTONIC) - start;
    if (round >= options.least_rounds && spent > options.budget_seconds) break;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      PassTime time = TimePass(passes[i], team);
      for (int tries = 1; IsDisturbed(time, threads) && tries < kTries; ++tries) {
        ++times.rejected;
        time = TimePass(passes[i], team);
      }
      if (IsDisturbed(time, threads)) ++times.disturbed;
      times.seconds[i].push_back(time.seconds);
    }
  }
  return times;
}

double Median(std::vector<double> values) {
  SKV_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double MedianRatio(std::span<const double> numerators, std::span<const double> denominators) {
  SKV_CHECK(numerators.size() == denominators.size());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < numerators.size(); ++i) {
    ratios.push_back(numerators[i] / denominators[i]);
  }
  return Median(std::move(ratios));
}

}  // namespace swiftkv
