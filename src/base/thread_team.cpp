// SPDX-License-Identifier: Apache-2.0
// Hands one call at a time to sleeping workers and waits for all of them.
#include "base/thread_team.h"

#include "base/check.h"

namespace swiftkv {

ThreadTeam::ThreadTeam(int num_threads) {
  SKV_CHECK(num_threads >= 1);
  workers_.reserve(static_cast<std::size_t>(num_threads) - 1);
  for (int thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] { WorkerLoop(thread); });
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::RunErased(void* function, ErasedCall call) {
  if (!workers_.empty()) {
    const std::lock_guard lock(mutex_);
    function_ = function;
    call_ = call;
    running_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  work_ready_.notify_all();
  call(function, 0, num_threads());
  std::unique_lock lock(mutex_);
  work_done_.wait(lock, [this] { return running_ == 0; });
}

void ThreadTeam::WorkerLoop(int thread) {
  std::uint64_t seen = 0;
  while (true) {
    void* function = nullptr;
    ErasedCall call = nullptr;
    {
      std::unique_lock lock(mutex_);
      work_ready_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      function = function_;
      call = call_;
    }
    call(function, thread, num_threads());
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      last = --running_ == 0;
    }
    if (last) work_done_.notify_one();
  }
}

}  // namespace swiftkv
