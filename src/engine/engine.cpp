// SPDX-License-Identifier: Apache-2.0
// Loads a model and serves requests on it: the public engine.
#include "swiftkv/engine.h"

#include <future>
#include <utility>

#include "base/status_macros.h"
#include "engine/engine_thread.h"
#include "engine/kv_memory.h"
#include "model/chat_template.h"
#include "model/language_model.h"
#include "model/vocabulary.h"

namespace swiftkv {

// Declared in the order in which they refer to one another; they go in reverse.
struct Engine::State {
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Vocabulary> vocabulary;
  Result<std::unique_ptr<ChatTemplate>> chat_template = Status::Unsupported("");
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<EngineThread> thread;
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                               const LoadProgress& progress) {
  auto state = std::make_unique<State>();
  ModelOptions model;
  model.path = options.model_path;
  model.threads = options.threads;
  model.context = options.context;
  model.max_batch_rows = options.step_tokens;
  SKV_ASSIGN_OR_RETURN(state->model, LanguageModel::Load(model, progress));
  SKV_ASSIGN_OR_RETURN(state->vocabulary, Vocabulary::Load(options.model_path));
  state->chat_template = ChatTemplate::FromVocabulary(*state->vocabulary);

  KvCacheOptions cache;
  cache.layers = state->model->layer_shapes();
  cache.key_format = options.format.key;
  cache.value_format = options.format.value;
  cache.model_fingerprint = state->model->fingerprint();
  cache.keeps_headroom = options.limits.forgetting || options.limits.ceiling == Quality::kAny;
  const MemoryLimit memory = {.automatic = options.kv_memory_bytes == 0,
                              .bytes = options.kv_memory_bytes};
  SKV_ASSIGN_OR_RETURN(cache.memory_bytes, ResolveKvBytes(memory, state->model->memory()));
  SKV_ASSIGN_OR_RETURN(state->cache, KvCache::Create(cache));

  const EngineParts parts = {.model = state->model.get(),
                             .vocabulary = state->vocabulary.get(),
                             .cache = state->cache.get(),
                             .format = options.format};
  SKV_ASSIGN_OR_RETURN(state->thread, EngineThread::Start(parts, options.limits));
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Result<std::vector<std::int32_t>> Engine::EncodePrompt(std::string_view text) const {
  return state_->vocabulary->EncodePrompt(text);
}

Result<std::vector<std::int32_t>> Engine::EncodeChat(std::string_view user_message,
                                                     std::string_view system_message) const {
  if (!state_->chat_template.ok()) return state_->chat_template.status();
  std::vector<ChatMessage> messages;
  if (!system_message.empty()) {
    messages.push_back({.role = "system", .content = std::string(system_message)});
  }
  messages.push_back({.role = "user", .content = std::string(user_message)});
  return (*state_->chat_template)->Tokens(messages, RenderOptions{});
}

Result<TokenStream> Engine::Submit(EngineRequest request) {
  return state_->thread->Submit(std::move(request));
}

void Engine::Cancel(RequestId id) { state_->thread->Cancel(id); }
EngineSnapshot Engine::Snapshot() const { return state_->thread->Snapshot(); }

Status Engine::DropPrefixes(const std::optional<PrefixOwner>& owner, DropCallback done) {
  return state_->thread->DropPrefixes(owner, std::move(done));
}

Status Engine::PinPrefix(const PrefixName& prefix, std::chrono::milliseconds keep,
                         StatusCallback done) {
  return state_->thread->PinPrefix(prefix, keep, std::move(done));
}

Status Engine::UnpinPrefix(const PrefixName& prefix, StatusCallback done) {
  return state_->thread->UnpinPrefix(prefix, std::move(done));
}

Result<DroppedPrefixes> Engine::DropPrefixes(const std::optional<PrefixOwner>& owner) {
  std::promise<DroppedPrefixes> outcome;
  SKV_RETURN_IF_ERROR(DropPrefixes(
      owner, [&outcome](const DroppedPrefixes& dropped) { outcome.set_value(dropped); }));
  return outcome.get_future().get();
}

Status Engine::PinPrefix(const PrefixName& prefix, std::chrono::milliseconds keep) {
  std::promise<Status> outcome;
  SKV_RETURN_IF_ERROR(
      PinPrefix(prefix, keep, [&outcome](const Status& status) { outcome.set_value(status); }));
  return outcome.get_future().get();
}

Status Engine::UnpinPrefix(const PrefixName& prefix) {
  std::promise<Status> outcome;
  SKV_RETURN_IF_ERROR(
      UnpinPrefix(prefix, [&outcome](const Status& status) { outcome.set_value(status); }));
  return outcome.get_future().get();
}

bool Engine::Drain(std::chrono::milliseconds timeout) { return state_->thread->Drain(timeout); }
void Engine::Shutdown() { state_->thread->Shutdown(); }
int Engine::context() const { return state_->model->context(); }

}  // namespace swiftkv
