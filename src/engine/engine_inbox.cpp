// SPDX-License-Identifier: Apache-2.0
// Moves requests and cancellations from callers to the engine's thread.
#include "engine/engine_inbox.h"

#include <fmt/format.h>

#include <utility>

#include "engine/bounded_wait.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMostOperations = 1024;  // that wait for the end of one step

}  // namespace

Status EngineInbox::Submit(std::unique_ptr<ActiveRequest> request) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Status::Cancelled("the engine takes no more requests: it is closing");
    if (queued_ >= max_queue_ || open_ >= max_open_) {
      return Status::ResourceExhausted(
          fmt::format("the queue is full, try again later; requests that wait or run: {}", open_));
    }
    ++queued_;
    ++open_;
    mail_.submitted.push_back(std::move(request));
  }
  arrived_.notify_one();
  return Status::Ok();
}

void EngineInbox::Withdraw(const Withdrawal& withdrawal) {
  {
    const std::lock_guard lock(mutex_);
    mail_.withdrawn.push_back(withdrawal);
  }
  arrived_.notify_one();
}

Status EngineInbox::Ask(CacheOperation operation) {
  {
    const std::lock_guard lock(mutex_);
    if (mail_.stop) return Status::Cancelled("the engine has been shut down");
    if (mail_.operations.size() >= kMostOperations) {
      return Status::ResourceExhausted(fmt::format(
          "too many operations on the cache wait, try again later: {}", mail_.operations.size()));
    }
    mail_.operations.push_back(std::move(operation));
  }
  arrived_.notify_one();
  return Status::Ok();
}

void EngineInbox::Notify() {
  {
    const std::lock_guard lock(mutex_);
    notified_ = true;
  }
  arrived_.notify_one();
}

void EngineInbox::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void EngineInbox::Stop() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    mail_.stop = true;
  }
  arrived_.notify_one();
}

EngineInbox::Mail EngineInbox::Take(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) {
    arrived_.wait(lock, [this] {
      return notified_ || mail_.stop || !mail_.submitted.empty() || !mail_.withdrawn.empty() ||
             !mail_.operations.empty();
    });
  }
  notified_ = false;
  Mail mail = std::move(mail_);
  mail_ = Mail{};
  mail_.stop = mail.stop;
  return mail;
}

bool EngineInbox::WaitUntilAllEnded(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return all_ended_.wait_for(lock, BoundedWait(timeout), [this] { return open_ == 0; });
}

void EngineInbox::Ended() {
  {
    const std::lock_guard lock(mutex_);
    --open_;
  }
  all_ended_.notify_all();
}

void EngineInbox::LeftQueue() {
  const std::lock_guard lock(mutex_);
  --queued_;
}

}  // namespace swiftkv
