// SPDX-License-Identifier: Apache-2.0
// Loads a model and sizes its cache.
#include "tools/model_stack.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/byte_size.h"
#include "base/process_memory.h"
#include "base/status_macros.h"
#include "formats/codec_table.h"
#include "tools/interrupt.h"
#include "tools/key_guide_store.h"
#include "tools/linear_store.h"
#include "tools/model_path.h"
#include "tools/printable_text.h"
#include "tools/query_figures_store.h"

namespace swiftkv {
namespace {

Result<std::unique_ptr<ChatTemplate>> LoadTemplate(const Vocabulary& vocabulary, bool raw) {
  if (raw) return std::unique_ptr<ChatTemplate>();
  Result<std::unique_ptr<ChatTemplate>> loaded = ChatTemplate::FromVocabulary(vocabulary);
  if (loaded.ok()) return loaded;
  if (loaded.status().code() == StatusCode::kUnsupported) return std::unique_ptr<ChatTemplate>();
  return Status(loaded.status().code(),
                fmt::format("--raw runs the model without its chat template, which is damaged: {}",
                            loaded.status().message()));
}

// What cannot be used is as good as not there, but for a word.
std::shared_ptr<const ModelQueryFigures> LoadQueryFigures(const LanguageModel& model) {
  Result<ModelQueryFigures> figures =
      ProcessQueryFiguresStore().Load(model.fingerprint(), model.spec());
  if (figures.ok()) return std::make_shared<const ModelQueryFigures>(std::move(*figures));
  if (figures.status().code() != StatusCode::kNotFound) {
    spdlog::warn("{}", PrintableLine(figures.status().message()));
  }
  return nullptr;
}

// Whether keys of what is kept are rounded, in the sequence's format or in part of it.
bool RoundsKeys(const PageFormat& format, const ForgettingRule* rule) {
  if (format.key->info().has_scales) return true;
  if (rule == nullptr) return false;
  return std::any_of(rule->kept_formats.begin(), rule->kept_formats.end(),
                     [](const KvFormat& kept) {
                       const Result<const PageCodec*> codec = FindCodec(kept.key);
                       return codec.ok() && (*codec)->info().has_scales;
                     });
}

Result<std::unique_ptr<KvCache>> CreateCache(const KvCacheOptions& options) {
  Result<std::unique_ptr<KvCache>> cache = KvCache::Create(options);
  if (cache.ok()) return cache;
  return Status(cache.status().code(),
                fmt::format("a cache within --kv-memory {} cannot be made: {}",
                            FormatByteSize(options.memory_bytes), cache.status().message()));
}

}  // namespace

Result<ModelStack> LoadModelStack(const RunOptions& options, const ProgressCallback& progress) {
  ModelStack stack;
  SKV_ASSIGN_OR_RETURN(stack.path, ResolveModelPath(options.model.path, ProcessEnvironment()));
  ModelOptions model_options = options.model;
  model_options.path = stack.path;
  model_options.linear_memo = ProcessLinearMemo();
  SKV_ASSIGN_OR_RETURN(stack.model, LanguageModel::Load(model_options, progress));
  const std::uint64_t heap_before = ReadHeapMemory().used_bytes;
  SKV_ASSIGN_OR_RETURN(stack.vocabulary, Vocabulary::Load(stack.path));
  SKV_RETURN_IF_ERROR(ValidateSamplerOptions(options.sampling, stack.vocabulary->size()));
  SKV_ASSIGN_OR_RETURN(stack.chat_template, LoadTemplate(*stack.vocabulary, options.prompt.raw));
  const std::uint64_t heap_after = ReadHeapMemory().used_bytes;
  stack.vocabulary_bytes = heap_after - std::min(heap_before, heap_after);

  KvCacheOptions cache_options;
  cache_options.layers = stack.model->layer_shapes();
  cache_options.model_fingerprint = stack.model->fingerprint();
  SKV_ASSIGN_OR_RETURN(const PageFormat format, PageFormatOf(options.cache));
  cache_options.key_format = format.key->info().name;
  cache_options.value_format = format.value->info().name;
  const bool may_forget = options.cache.quality.value_or(Quality::kAny) == Quality::kAny;
  const std::optional<Forgetting> forgetting = ForgettingOf(options.forgetting);
  if (may_forget && (forgetting || options.cache.quality)) {
    stack.query_figures = LoadQueryFigures(*stack.model);
  }
  if (forgetting) {
    stack.asked_forgetting = *forgetting;
    const KvFormat own = {.key = cache_options.key_format, .value = cache_options.value_format};
    SKV_ASSIGN_OR_RETURN(stack.forgetting,
                         MakeForgettingRule(*forgetting, {.layers = cache_options.layers,
                                                          .format = own,
                                                          .decoder = &stack.model->spec(),
                                                          .figures = stack.query_figures}));
  }
  // Requests may ask for it as long as nothing forbids it.
  cache_options.keeps_headroom =
      may_forget && (stack.forgetting != nullptr || options.cache.quality);
  if (RoundsKeys(format, stack.forgetting.get())) {
    SKV_ASSIGN_OR_RETURN(const std::uint64_t bound,
                         ResolveKvBytes(options.cache.memory, stack.model->memory()));
    SKV_ASSIGN_OR_RETURN(cache_options.key_guides,
                         ProcessKeyGuideStore().Guides(stack.model.get(), *stack.vocabulary, bound,
                                                       InterruptFlag()));
    if (cache_options.key_guides != nullptr) {
      stack.key_guide_bytes = KeyGuideBytes(cache_options.layers);
    }
  }
  SKV_ASSIGN_OR_RETURN(KvFootprint footprint,
                       KvFootprint::Make(cache_options.layers, cache_options.key_format,
                                         cache_options.value_format));
  // Last of all, so that what the process holds is missing from what is available.
  const ModelMemory memory = stack.model->memory();
  SKV_ASSIGN_OR_RETURN(const std::uint64_t available, AvailableBytes());
  stack.automatic_memory = DivideMemory(available, memory);
  SKV_ASSIGN_OR_RETURN(cache_options.memory_bytes, ResolveKvBytes(options.cache.memory, memory));
  SKV_ASSIGN_OR_RETURN(stack.resident_before_cache, ProcessResidentBytes());
  SKV_ASSIGN_OR_RETURN(stack.cache, CreateCache(cache_options));
  stack.session = std::make_unique<GenerationSession>(stack.model.get(), stack.vocabulary.get(),
                                                      stack.cache.get(), std::move(footprint));
  return stack;
}

}  // namespace swiftkv
