// SPDX-License-Identifier: Apache-2.0
// Serves requests over a loaded model and its cache from a thread of its own. Layer: engine.
//
// Any thread may call; what each call means is stated at Engine (swiftkv/engine.h), which is this
// with a model that it loads.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/engine_inbox.h"
#include "engine/engine_loop.h"
#include "engine/request_gate.h"
#include "swiftkv/engine.h"

namespace swiftkv {

class EngineThread {
 public:
  // Starts the thread. The parts must outlive it. Errors: those of RequestGate::Create.
  static Result<std::unique_ptr<EngineThread>> Start(const EngineParts& parts,
                                                     const EngineLimits& limits);
  ~EngineThread() { Shutdown(); }
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  Result<TokenStream> Submit(EngineRequest request);
  void Cancel(RequestId id) { inbox_->Withdraw({.id = id}); }
  EngineSnapshot Snapshot() const { return loop_.Snapshot(); }
  EngineReport Report() const { return loop_.Report(); }
  Status DropPrefixes(const std::optional<PrefixOwner>& owner, DropCallback done);
  Status PinPrefix(const PrefixName& prefix, std::chrono::milliseconds keep, StatusCallback done);
  Status UnpinPrefix(const PrefixName& prefix, StatusCallback done);
  bool Drain(std::chrono::milliseconds timeout);
  void Shutdown();

 private:
  EngineThread(const EngineParts& parts, const EngineLimits& limits, RequestGate gate);

  const RequestGate gate_;
  std::shared_ptr<EngineInbox> inbox_;  // streams outlive the engine
  EngineLoop loop_;
  std::atomic<std::uint64_t> next_id_ = 1;
  std::atomic<bool> abandon_ = false;
  std::mutex join_mutex_;  // guards the joining of thread_
  std::thread thread_;
};

}  // namespace swiftkv
