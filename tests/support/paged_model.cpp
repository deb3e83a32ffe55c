// SPDX-License-Identifier: Apache-2.0
// Drives LanguageModel and KvCache step by step: reserve, forward, commit.
#include "support/paged_model.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "formats/page_format_table.h"

namespace swiftkv {

Result<std::unique_ptr<PagedModel>> PagedModel::Load(const std::string& path,
                                                     const PagedModelOptions& options) {
  ModelOptions model_options;
  model_options.path = path;
  model_options.threads = options.threads;
  model_options.context = options.context;
  model_options.attention_backend = options.attention_backend;
  model_options.isa = options.isa;
  model_options.linear = options.linear;
  model_options.precise = options.precise;
  model_options.packed_weights = options.packed_weights;
  model_options.use_repacked_weights = options.repacked_weights;
  model_options.max_batch_rows = options.max_chunk;
  std::unique_ptr<PagedModel> paged(new PagedModel);
  SKV_ASSIGN_OR_RETURN(paged->model_,
                       LanguageModel::Load(model_options, [](double) { return true; }));
  KvCacheOptions cache_options;
  cache_options.layers = paged->model_->layer_shapes();
  SKV_ASSIGN_OR_RETURN(const PageFormat format, FindPageFormat(options.format));
  cache_options.key_format = format.key->info().name;
  cache_options.value_format = format.value->info().name;
  cache_options.memory_bytes = options.cache_bytes;
  cache_options.poison_free_frames = true;
  SKV_ASSIGN_OR_RETURN(paged->cache_, KvCache::Create(cache_options));
  SKV_ASSIGN_OR_RETURN(paged->sequence_, paged->cache_->CreateSequence());
  return paged;
}

Result<Logits> PagedModel::Append(std::span<const TokenId> tokens) {
  const SequenceChunk chunk = {sequence_, tokens};
  return AppendBatch(std::span(&chunk, 1));
}

Result<Logits> PagedModel::AppendBatch(std::span<const SequenceChunk> chunks) {
  std::vector<TokenId> tokens;
  std::vector<BatchSlice> slices;
  for (const SequenceChunk& chunk : chunks) {
    const auto rows = static_cast<int>(chunk.tokens.size());
    SKV_RETURN_IF_ERROR(cache_->Reserve(chunk.sequence, rows));
    slices.push_back({.sequence = chunk.sequence,
                      .first_position = cache_->Length(chunk.sequence),
                      .first_row = static_cast<int>(tokens.size()),
                      .num_rows = rows,
                      .num_outputs = rows});
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
  }
  SKV_ASSIGN_OR_RETURN(const std::span<const float> values,
                       model_->Forward(cache_.get(), {tokens, slices}, nullptr));
  for (const BatchSlice& slice : slices) cache_->Commit(slice.sequence, slice.num_rows);
  Logits logits;
  logits.rows = static_cast<int>(tokens.size());
  logits.vocabulary = model_->spec().vocab_size;
  logits.values.assign(values.begin(), values.end());
  return logits;
}

Status PagedModel::Clear() {
  cache_->Release(sequence_);
  SKV_ASSIGN_OR_RETURN(sequence_, cache_->CreateSequence());
  return Status::Ok();
}

Result<Logits> AppendInChunks(PagedModel* model, std::span<const TokenId> tokens, int chunk) {
  Logits all;
  for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(chunk)) {
    const size_t size = std::min(static_cast<size_t>(chunk), tokens.size() - begin);
    SKV_ASSIGN_OR_RETURN(const Logits part, model->Append(tokens.subspan(begin, size)));
    all.rows += part.rows;
    all.vocabulary = part.vocabulary;
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
  }
  return all;
}

}  // namespace swiftkv
