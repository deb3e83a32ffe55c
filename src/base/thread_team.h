// SPDX-License-Identifier: Apache-2.0
// Runs a function on a small team of threads, for callers without a team of their own.
//
// Owner: one thread, which works as thread 0 of every run. Workers sleep between runs. A run
// returns after all threads have finished, and what they wrote is then visible to the caller.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace swiftkv {

class ThreadTeam {
 public:
  // `num_threads` includes the caller and is at least 1.
  explicit ThreadTeam(int num_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls function(thread, num_threads) once on every thread, thread in [0, num_threads). The
  // function throws nothing.
  template <typename Function>
  void Run(Function&& function) {
    RunErased(&function, [](void* erased, int thread, int num_threads) {
      (*static_cast<std::remove_reference_t<Function>*>(erased))(thread, num_threads);
    });
  }

 private:
  using ErasedCall = void (*)(void* function, int thread, int num_threads);

  void RunErased(void* function, ErasedCall call);
  void WorkerLoop(int thread);

  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  // Guarded by mutex_.
  std::uint64_t generation_ = 0;  // counts runs
  int running_ = 0;               // workers that have not finished this run
  bool stopping_ = false;
  void* function_ = nullptr;
  ErasedCall call_ = nullptr;

  std::vector<std::thread> workers_;
};

}  // namespace swiftkv
