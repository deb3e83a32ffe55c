// SPDX-License-Identifier: Apache-2.0
// Holds what other threads ask of the engine's thread until it comes to it. Layer: engine.
//
// Shared by the engine's thread, callers and streams. One lock, held for moving things in or out
// and for nothing else. The bound counts requests that wait for their first place, in here and with
// the engine: it says when one has left.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/active_request.h"
#include "swiftkv/request.h"
#include "swiftkv/status.h"

namespace swiftkv {

// What is done to the cache between two steps; `now_ms` is the cache's time.
using CacheOperation = std::function<void(KvCache* cache, std::int64_t now_ms)>;

// A request that shall end, or one choice of it, and how that says so.
struct Withdrawal {
  static constexpr int kAllChoices = -1;

  RequestId id{};
  FinishReason reason = FinishReason::kCancelled;
  int choice = kAllChoices;
};

class EngineInbox {
 public:
  struct Mail {
    std::vector<std::unique_ptr<ActiveRequest>> submitted;  // in the order of their arrival
    std::vector<Withdrawal> withdrawn;
    std::vector<CacheOperation> operations;  // in the order in which they were asked for
    bool stop = false;
  };

  // At most `max_queue` requests wait for a first place. Those that lost their place because nobody
  // reads them wait too: with `max_places` there are never more than both together.
  EngineInbox(int max_queue, int max_places)
      : max_queue_(max_queue), max_open_(max_queue + max_places) {}

  // Callers' side. Errors: ResourceExhausted where the queue is full, Cancelled once closed.
  Status Submit(std::unique_ptr<ActiveRequest> request);
  void Withdraw(const Withdrawal& withdrawal);
  // Every operation that is taken is carried out, also those that come just before Stop. Errors:
  // ResourceExhausted where too many wait, Cancelled after Stop.
  Status Ask(CacheOperation operation);
  // Wakes the engine where it waits: something that it looks at has changed.
  void Notify();
  // No request is taken from now on.
  void Close();
  // Waits until every request that was taken has ended. Returns whether that came in time.
  bool WaitUntilAllEnded(std::chrono::milliseconds timeout);
  // Close, and the engine shall end.
  void Stop();

  // The engine's side: what has come, after waiting for something where `wait`.
  Mail Take(bool wait);
  // One request has got its first place, or has ended without one.
  void LeftQueue();
  // One request has ended.
  void Ended();

 private:
  const int max_queue_;
  const int max_open_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_;
  Mail mail_;
  std::condition_variable all_ended_;
  int queued_ = 0;  // without a place so far
  int open_ = 0;    // not ended
  bool closed_ = false;
  bool notified_ = false;
};

}  // namespace swiftkv
