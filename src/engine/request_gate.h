// SPDX-License-Identifier: Apache-2.0
// Checks requests before they queue, and makes what they need that is not the cache's. Layer:
// engine.
//
// Any thread: what it reads never changes. Parsing grammars and showing prompts to penalties
// happens here, on the caller's thread, and delays no step.
#pragma once

#include <memory>

#include "engine/active_request.h"
#include "model/language_model.h"
#include "model/vocabulary.h"
#include "swiftkv/engine.h"

namespace swiftkv {

// What an engine computes with. All must outlive it, and nobody else may use model and cache
// meanwhile.
struct EngineParts {
  LanguageModel* model = nullptr;
  const Vocabulary* vocabulary = nullptr;
  KvCache* cache = nullptr;
  KvFormat format;  // the cache's own
  // Statistics of the model's queries; null where none were measured.
  std::shared_ptr<const ModelQueryFigures> figures = nullptr;
};

// What a request asks for as to its cache.
struct StorageWish {
  std::optional<KvFormat> format = {};
  std::optional<Quality> quality = {};
  std::optional<Forgetting> forgetting = {};
};

// How K and V of a request are stored, the worst grade that it reads, and what it forgets.
struct StorageChoice {
  KvFormat format;
  Quality allowed = Quality::kExact;
  std::shared_ptr<const ForgettingRule> forgetting = nullptr;
};

class RequestGate {
 public:
  // Errors: InvalidArgument for bad limits; those of KvFootprint::Make.
  static Result<RequestGate> Create(const EngineParts& parts, const EngineLimits& limits);

  // Errors: as Engine::Submit, less those of the queue.
  Result<std::unique_ptr<ActiveRequest>> Check(EngineRequest request) const;

  // Chooses for what a request asks (swiftkv/request.h). Errors: InvalidArgument for an unknown
  // format, or one whose grade does not serve the quality or the ceiling; those of
  // MakeForgettingRule.
  Result<StorageChoice> Choose(const StorageWish& wish) const;

 private:
  RequestGate() = default;

  Status CheckPrompt(const EngineRequest& request) const;
  Status CheckNumbers(const EngineRequest& request) const;
  // The worst grade that a request reads, whatever the ceiling.
  Result<Quality> WishedGrade(const StorageWish& wish) const;
  Result<std::shared_ptr<const ForgettingRule>> ChooseForgetting(const StorageWish& wish,
                                                                 const StorageChoice& choice) const;
  Status SetStorage(ActiveRequest* request) const;
  Status CheckForgetting(ActiveRequest* request) const;
  void Reserve(ActiveRequest* request) const;
  static std::int64_t LeastHeld(const ActiveRequest& request);
  Status CheckFits(const ActiveRequest& request) const;
  void ForgetInPlace(ActiveRequest* request) const;
  Status MakeChoices(ActiveRequest* request) const;

  const Vocabulary* vocabulary_ = nullptr;
  int context_ = 0;
  EngineLimits limits_;
  std::vector<LayerShape> layers_;
  const DecoderSpec* decoder_ = nullptr;
  std::shared_ptr<const ModelQueryFigures> figures_;
  std::uint64_t limit_bytes_ = 0;
  KvFormat format_;
  Quality grade_ = Quality::kExact;  // of format_
  Quality ceiling_ = Quality::kExact;
};

}  // namespace swiftkv
