// SPDX-License-Identifier: Apache-2.0
// Starts and ends the engine's thread, and hands requests to it.
#include "engine/engine_thread.h"

#include <fmt/format.h>

#include <utility>

#include "base/status_macros.h"
#include "engine/bounded_wait.h"

namespace swiftkv {
namespace {

PrefixScope ScopeOf(const PrefixOwner& owner) {
  PrefixScope scope;
  scope.tenant_salt = owner.tenant_salt;
  scope.request_salt = owner.request_salt;
  return scope;
}

}  // namespace

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

Status EngineThread::DropPrefixes(const std::optional<PrefixOwner>& owner, DropCallback done) {
  return inbox_->Ask([owner, done = std::move(done)](KvCache* cache, std::int64_t) {
    done(owner ? cache->DropPrefixes(ScopeOf(*owner)) : cache->DropPrefixes());
  });
}

Status EngineThread::PinPrefix(const PrefixName& prefix, std::chrono::milliseconds keep,
                               StatusCallback done) {
  if (keep.count() <= 0) {
    return Status::InvalidArgument(
        fmt::format("a prefix is kept for 1 ms or more, not: {}", keep.count()));
  }
  SKV_ASSIGN_OR_RETURN(const StorageChoice stored,
                       gate_.Choose({.format = prefix.format, .quality = prefix.quality}));
  PrefixScope scope = ScopeOf(prefix.owner);
  scope.allowed = stored.allowed;
  return inbox_->Ask([tokens = prefix.tokens, format = stored.format, scope = std::move(scope),
                      keep_ms = BoundedWait(keep).count(),
                      done = std::move(done)](KvCache* cache, std::int64_t now_ms) {
    done(cache->PinPrefix(format, scope, tokens, now_ms + keep_ms));
  });
}

Status EngineThread::UnpinPrefix(const PrefixName& prefix, StatusCallback done) {
  SKV_ASSIGN_OR_RETURN(const StorageChoice stored,
                       gate_.Choose({.format = prefix.format, .quality = prefix.quality}));
  return inbox_->Ask([tokens = prefix.tokens, format = stored.format, scope = ScopeOf(prefix.owner),
                      done = std::move(done)](KvCache* cache, std::int64_t) {
    done(cache->UnpinPrefix(format, scope, tokens));
  });
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
