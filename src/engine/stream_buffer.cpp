// SPDX-License-Identifier: Apache-2.0
// Moves events between two threads, and implements the reader's handle over it.
#include "engine/stream_buffer.h"

#include <utility>

#include "engine/bounded_wait.h"
#include "engine/engine_inbox.h"

namespace swiftkv {
void StreamBuffer::TellReader() {
  readable_.notify_all();
  if (on_ready_) on_ready_();
}

void StreamBuffer::Push(TokenEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  TellReader();
}

bool StreamBuffer::HasRoom() const {
  const std::lock_guard lock(mutex_);
  return !IsFull();
}

void StreamBuffer::Close(Status status, const RequestUsage& usage) {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    status_ = std::move(status);
    usage_ = usage;
  }
  TellReader();
}

StreamOutcome StreamBuffer::Next(TokenEvent* event, std::chrono::milliseconds timeout,
                                 bool* made_room) {
  std::unique_lock lock(mutex_);
  readable_.wait_for(lock, BoundedWait(timeout), [this] { return closed_ || !events_.empty(); });
  *made_room = false;
  if (events_.empty()) return closed_ ? StreamOutcome::kEnd : StreamOutcome::kTimeout;
  *made_room = IsFull();
  *event = std::move(events_.front());
  events_.pop_front();
  return StreamOutcome::kEvent;
}

bool StreamBuffer::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

Status StreamBuffer::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

RequestUsage StreamBuffer::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

TokenStream::TokenStream(RequestId id, std::shared_ptr<StreamBuffer> buffer,
                         std::shared_ptr<EngineInbox> inbox)
    : id_(id), buffer_(std::move(buffer)), inbox_(std::move(inbox)) {}

TokenStream::~TokenStream() {
  if (buffer_ != nullptr && !buffer_->closed()) Cancel();
}

TokenStream& TokenStream::operator=(TokenStream&& other) noexcept {
  if (this == &other) return *this;
  if (buffer_ != nullptr && !buffer_->closed()) Cancel();
  id_ = other.id_;
  buffer_ = std::move(other.buffer_);
  inbox_ = std::move(other.inbox_);
  return *this;
}

StreamOutcome TokenStream::Next(TokenEvent* event, std::chrono::milliseconds timeout) {
  if (buffer_ == nullptr) return StreamOutcome::kEnd;
  bool made_room = false;
  const StreamOutcome outcome = buffer_->Next(event, timeout, &made_room);
  if (made_room) inbox_->Notify();
  return outcome;
}

void TokenStream::Cancel() {
  if (inbox_ != nullptr) inbox_->Withdraw({.id = id_});
}

void TokenStream::Finish() {
  if (inbox_ != nullptr) inbox_->Withdraw({.id = id_, .reason = FinishReason::kStop});
}

void TokenStream::Finish(int choice) {
  if (inbox_ == nullptr) return;
  inbox_->Withdraw({.id = id_, .reason = FinishReason::kStop, .choice = choice});
}

Status TokenStream::status() const { return buffer_ == nullptr ? Status::Ok() : buffer_->status(); }

RequestUsage TokenStream::usage() const {
  return buffer_ == nullptr ? RequestUsage{} : buffer_->usage();
}

}  // namespace swiftkv
