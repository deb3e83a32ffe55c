// SPDX-License-Identifier: Apache-2.0
// Implements the sequences of `bench model`.
#include "tools/bench_sequences.h"

#include <algorithm>

#include "base/status_macros.h"

namespace swiftkv {

TokenId BenchSequences::TokenAt(std::int64_t position) const {
  return static_cast<TokenId>(position * 37 % model_->spec().vocab_size);
}

Status BenchSequences::Append(SequenceId sequence, int count) {
  for (int done = 0; done < count;) {
    const int rows = std::min(count - done, model_->max_batch_rows());
    BatchSlice slice;
    slice.sequence = sequence;
    slice.first_position = cache_->Length(sequence);
    slice.num_rows = rows;
    slice.num_outputs = done + rows == count ? 1 : 0;
    tokens_.clear();
    for (int i = 0; i < rows; ++i) tokens_.push_back(TokenAt(slice.first_position + i));
    SKV_RETURN_IF_ERROR(cache_->Reserve(sequence, rows));
    SKV_RETURN_IF_ERROR(model_->Forward(cache_, {tokens_, std::span(&slice, 1)}, nullptr).status());
    cache_->Commit(sequence, rows);
    done += rows;
  }
  return Status::Ok();
}

Status BenchSequences::Step(std::span<const SequenceId> sequences) {
  tokens_.clear();
  slices_.clear();
  for (const SequenceId sequence : sequences) {
    const std::int64_t length = cache_->Length(sequence);
    const auto row = static_cast<int>(slices_.size());
    SKV_RETURN_IF_ERROR(cache_->Reserve(sequence, 1));
    // Different tokens, as sequences that part after a prefix have.
    tokens_.push_back(TokenAt(length + row));
    slices_.push_back({sequence, length, row, /*num_rows=*/1, /*num_outputs=*/1});
  }
  SKV_RETURN_IF_ERROR(model_->Forward(cache_, {tokens_, slices_}, nullptr).status());
  for (const SequenceId sequence : sequences) cache_->Commit(sequence, 1);
  return Status::Ok();
}

// Values that were stored once decode to values that are stored again without further loss, so that
// the copy holds what was computed.
void BenchSequences::CopyLayer(SequenceId from, SequenceId to, int layer) {
  const LayerShape& shape = cache_->layer(layer);
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  const std::size_t stride = dim * static_cast<std::size_t>(shape.kv_heads);
  keys_.resize(kPageTokens * stride);
  values_.resize(kPageTokens * stride);
  runs_.clear();
  cache_->AppendRuns(from, layer, 0, &runs_);
  const std::int64_t first = cache_->Length(to);
  for (const PageRun& run : runs_) {
    for (int page = 0; page < run.num_pages; ++page) {
      const int slots = std::min(kPageTokens, run.num_tokens - page * kPageTokens);
      const std::int64_t position = run.first_position + page * kPageTokens;
      const int skipped = static_cast<int>(std::clamp<std::int64_t>(first - position, 0, slots));
      if (skipped == slots) continue;
      for (int head = 0; head < shape.kv_heads; ++head) {
        const std::byte* const bytes = run.Page(page, head);
        const std::size_t at = static_cast<std::size_t>(head) * dim;
        run.format.key->Decode(KeyPlane(run.format, run.layout, shape.head_dim, bytes), {0, slots},
                               keys_.data() + at, stride);
        run.format.value->Decode(ValuePlane(run.format, run.layout, shape.head_dim, bytes),
                                 {0, slots}, values_.data() + at, stride);
      }
      KvRows rows;
      rows.sequence = to;
      rows.layer = layer;
      rows.first_position = position + skipped;
      rows.num_tokens = slots - skipped;
      rows.end_head = shape.kv_heads;
      rows.keys = keys_.data() + static_cast<std::size_t>(skipped) * stride;
      rows.values = values_.data() + static_cast<std::size_t>(skipped) * stride;
      rows.token_stride = stride;
      cache_->StoreRows(rows);
    }
  }
}

Result<SequenceId> BenchSequences::CopyBehind(SequenceId prefix, SequenceId whole) {
  SKV_ASSIGN_OR_RETURN(const SequenceId copy, cache_->Fork(prefix));
  const auto rest = static_cast<int>(cache_->Length(whole) - cache_->Length(prefix));
  if (rest == 0) return copy;
  const Status reserved = cache_->Reserve(copy, rest);
  if (!reserved.ok()) {
    cache_->Release(copy);
    return reserved;
  }
  for (int layer = 0; layer < cache_->num_layers(); ++layer) CopyLayer(whole, copy, layer);
  cache_->Commit(copy, rest);
  return copy;
}

}  // namespace swiftkv
