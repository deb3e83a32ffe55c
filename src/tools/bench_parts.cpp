// SPDX-License-Identifier: Apache-2.0
// Implements the loading of models for benches.
#include "tools/bench_parts.h"

#include <algorithm>

#include "base/status_macros.h"
#include "engine/kv_memory.h"
#include "swiftkv/attention.h"
#include "tools/key_guide_store.h"
#include "tools/linear_store.h"
#include "tools/model_path.h"

namespace swiftkv {
namespace {

Status ServesEveryLayer(const AttentionBackend& backend, const DecoderSpec& spec,
                        const PageFormat& format) {
  for (const DecoderLayerSpec& layer : spec.layers) {
    AttentionShape shape;
    shape.num_heads = layer.num_heads;
    shape.num_kv_heads = layer.kv_heads;
    shape.head_dim = spec.head_dim;
    SKV_RETURN_IF_ERROR(backend.Serves(shape, format));
  }
  return Status::Ok();
}

}  // namespace

KvFormat KvFormatOf(const BenchFormat& format) {
  return {format.format.key->info().name, format.format.value->info().name};
}

Result<BenchParts> LoadBenchParts(const ModelOptions& options, const NameList& formats) {
  BenchParts parts;
  SKV_ASSIGN_OR_RETURN(parts.path, ResolveModelPath(options.path, ProcessEnvironment()));
  ModelOptions model = options;
  model.path = parts.path;
  model.linear_memo = ProcessLinearMemo();
  SKV_ASSIGN_OR_RETURN(parts.model, LanguageModel::Load(model, nullptr));
  SKV_ASSIGN_OR_RETURN(const std::vector<BenchFormat> wanted, ListBenchFormats(formats));
  SKV_ASSIGN_OR_RETURN(const auto backend,
                       MakeAttentionBackend(options.attention_backend, options.isa));
  const DecoderSpec& spec = parts.model->spec();
  for (const BenchFormat& format : wanted) {
    const Status served = ServesEveryLayer(*backend, spec, format.format);
    if (!served.ok() && !TakesAllFormats(formats)) return served;
    if (served.ok()) parts.formats.push_back(format);
  }
  if (!parts.formats.empty()) return parts;
  return Status::Unsupported("the kernels compute no format with the model's head size of " +
                             std::to_string(spec.head_dim));
}

Status OpenBenchCache(const MemoryLimit& memory, BenchParts* parts) {
  KvCacheOptions cache;
  cache.layers = parts->model->layer_shapes();
  cache.model_fingerprint = parts->model->fingerprint();
  const bool guided =
      std::any_of(parts->formats.begin(), parts->formats.end(),
                  [](const BenchFormat& format) { return format.format.key->info().has_scales; });
  if (guided) {
    SKV_ASSIGN_OR_RETURN(const auto vocabulary, Vocabulary::Load(parts->path));
    SKV_ASSIGN_OR_RETURN(const std::uint64_t bound, ResolveKvBytes(memory, parts->model->memory()));
    SKV_ASSIGN_OR_RETURN(cache.key_guides, ProcessKeyGuideStore().Guides(
                                               parts->model.get(), *vocabulary, bound, nullptr));
  }
  SKV_ASSIGN_OR_RETURN(cache.memory_bytes, ResolveKvBytes(memory, parts->model->memory()));
  SKV_ASSIGN_OR_RETURN(parts->cache, KvCache::Create(cache));
  return Status::Ok();
}

}  // namespace swiftkv
