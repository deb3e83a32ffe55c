// SPDX-License-Identifier: Apache-2.0
// Builds what a subcommand needs to generate: model, vocabulary, chat template, cache and session.
//
// Members are declared in the order in which they may refer to one another; they go in reverse.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/forgetting_rule.h"
#include "engine/generation_session.h"
#include "engine/kv_memory.h"
#include "model/chat_template.h"
#include "model/language_model.h"
#include "model/vocabulary.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"
#include "tools/kv_choice.h"
#include "tools/run_options.h"

namespace swiftkv {

struct ModelStack {
  std::string path;
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Vocabulary> vocabulary;
  std::unique_ptr<ChatTemplate> chat_template;  // null with --raw or where the model has none
  std::uint64_t vocabulary_bytes = 0;           // of the heap, with the template
  std::uint64_t key_guide_bytes = 0;            // 0 where the cache's format rounds without them
  AutomaticKvMemory automatic_memory;           // what --kv-memory auto gives, given or not
  std::uint64_t resident_before_cache = 0;      // bytes of the process
  KvChoice kv_choice;                           // how the cache's format came about
  // Statistics of the model's queries that `eval --query-stats` has kept; null: none, or nobody may
  // forget.
  std::shared_ptr<const ModelQueryFigures> query_figures;
  Forgetting asked_forgetting;                       // by flags
  std::shared_ptr<const ForgettingRule> forgetting;  // of the session's replies; null: none
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<GenerationSession> session;
};

// Errors: those of each part, with the path or the flag in the sentence.
Result<ModelStack> LoadModelStack(const RunOptions& options, const ProgressCallback& progress);

}  // namespace swiftkv
