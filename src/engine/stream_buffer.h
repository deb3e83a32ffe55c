// SPDX-License-Identifier: Apache-2.0
// Carries a request's events from the engine's thread to its reader, bounded. Layer: engine.
//
// Shared by both. One lock, held for moving an event in or out and for nothing else: no callback
// runs and no other lock is taken under it. Pushing never waits: the engine looks at HasRoom before
// it computes, so at most one step's events come on top of the bound.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "swiftkv/engine.h"

namespace swiftkv {

class StreamBuffer {
 public:
  // `capacity` events wait at most, 0: any number. `on_ready` may be empty.
  StreamBuffer(std::size_t capacity, std::function<void()> on_ready)
      : capacity_(capacity), on_ready_(std::move(on_ready)) {}

  // The engine's side.
  void Push(TokenEvent event);
  bool HasRoom() const;
  void Close(Status status, const RequestUsage& usage);

  // The reader's side. `made_room`: the buffer was full, so the engine may go on.
  StreamOutcome Next(TokenEvent* event, std::chrono::milliseconds timeout, bool* made_room);
  bool closed() const;
  Status status() const;
  RequestUsage usage() const;

 private:
  bool IsFull() const { return capacity_ > 0 && events_.size() >= capacity_; }
  void TellReader();

  const std::size_t capacity_;
  const std::function<void()> on_ready_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable readable_;
  std::deque<TokenEvent> events_;
  bool closed_ = false;
  Status status_;
  RequestUsage usage_;
};

}  // namespace swiftkv
