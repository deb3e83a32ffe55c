// SPDX-License-Identifier: Apache-2.0
// Starts and ends the engine's thread, and hands requests to it.
#include "engine/engine_thread.h"

#include <utility>

#include "base/status_macros.h"

namespace swiftkv {

EngineThread::EngineThread(const EngineParts& parts, const EngineLimits& limits, RequestGate gate)
    : gate_(std::move(gate)),
      inbox_(std::make_shared<EngineInbox>(limits.max_queue, limits.max_sequences)),
      loop_(parts, limits, inbox_.get()) {
  thread_ = std::thread([this] { loop_.Run(&abandon_); });
}

Result<std::unique_ptr<EngineThread>> EngineThread::Start(const EngineParts& parts,
                                                          const EngineLimits& limits) {
  SKV_ASSIGN_OR_RETURN(RequestGate gate, RequestGate::Create(parts, limits));
  return std::unique_ptr<EngineThread>(new EngineThread(parts, limits, std::move(gate)));
}

Result<TokenStream> EngineThread::Submit(EngineRequest asked) {
  SKV_ASSIGN_OR_RETURN(std::unique_ptr<ActiveRequest> request, gate_.Check(std::move(asked)));
  const RequestId id{next_id_.fetch_add(1)};
  request->id = id;
  const std::shared_ptr<StreamBuffer> buffer = request->stream;
  SKV_RETURN_IF_ERROR(inbox_->Submit(std::move(request)));
  return TokenStream(id, buffer, inbox_);
}

bool EngineThread::Drain(std::chrono::milliseconds timeout) {
  inbox_->Close();
  return inbox_->WaitUntilAllEnded(timeout);
}

void EngineThread::Shutdown() {
  abandon_ = true;
  inbox_->Stop();
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

}  // namespace swiftkv
