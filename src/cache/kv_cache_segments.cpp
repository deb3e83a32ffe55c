// SPDX-License-Identifier: Apache-2.0
// Offers compressed segments through the public cache.
#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "cache/kv_cache_state.h"
#include "cache/segment_draft.h"

namespace swiftkv {

Result<CompactionResult> KvCache::Compact(SequenceId sequence, const CompactionOrder& order) {
  return state_->sequences->Compact(sequence, order);
}

Result<bool> KvCache::BeginCompaction(SequenceId sequence, const CompactionOrder& order) {
  return state_->sequences->BeginCompaction(sequence, order);
}

bool KvCache::ContinueCompaction(SequenceId sequence, int num_blocks) {
  return state_->sequences->ContinueCompaction(sequence, num_blocks);
}

CompactionResult KvCache::FinishCompaction(SequenceId sequence, const CompactionOrder& order) {
  return state_->sequences->FinishCompaction(sequence, order);
}

std::int64_t KvCache::FindSegment(const KvFormat& format, const PrefixScope& scope,
                                  std::span<const std::int32_t> tokens,
                                  std::string_view recipe) const {
  if (!scope.share) return 0;
  SequenceSet::SegmentLookUp look_up;
  look_up.format = &format;
  look_up.scope = state_->RootOf(scope);
  look_up.allowed = scope.allowed;
  look_up.tokens = tokens;
  look_up.recipe = recipe;
  const CompressedSegment* const segment = state_->sequences->FindSegment(look_up);
  return segment == nullptr ? 0 : segment->end;
}

Result<std::int64_t> KvCache::AdoptSegment(SequenceId sequence,
                                           std::span<const std::int32_t> tokens,
                                           std::string_view recipe) {
  return state_->sequences->AdoptSegment(sequence, tokens, recipe);
}

Status KvCache::PinSegment(const KvFormat& format, const PrefixScope& scope,
                           std::span<const std::int32_t> tokens, std::string_view recipe,
                           std::int64_t until_ms) {
  SequenceSet::SegmentLookUp look_up;
  look_up.format = &format;
  look_up.scope = state_->RootOf(scope);
  look_up.allowed = scope.allowed;
  look_up.tokens = tokens;
  look_up.recipe = recipe;
  look_up.leaves_one = false;
  return state_->sequences->PinSegment(look_up, until_ms);
}

std::int64_t KvCache::SegmentEnd(SequenceId sequence) const {
  const CompressedSegment* const segment = state_->sequences->Get(sequence).segment;
  return segment == nullptr ? 0 : segment->end;
}

void KvCache::AppendKeptPositions(SequenceId sequence, int layer_index, int head,
                                  std::vector<std::int32_t>* positions) const {
  SKV_CHECK(layer_index >= 0 && layer_index < num_layers());
  const CompressedSegment* const segment = state_->sequences->Get(sequence).segment;
  if (segment == nullptr) return;
  const auto first = static_cast<std::ptrdiff_t>(positions->size());
  for (const SegmentRun& run : segment->RunsOf(layer_index)) {
    if (run.head != head) continue;
    const auto middle = static_cast<std::ptrdiff_t>(positions->size());
    const auto kept = segment->PositionsOf(run);
    positions->insert(positions->end(), kept.begin(), kept.end());
    std::inplace_merge(positions->begin() + first, positions->begin() + middle, positions->end());
  }
}

void KvCache::AppendSegmentRuns(SequenceId sequence, int layer_index,
                                std::vector<PageRun>* runs) const {
  const CompressedSegment* const segment = state_->sequences->Get(sequence).segment;
  if (segment == nullptr) return;
  for (const SegmentRun& kept : segment->RunsOf(layer_index)) {
    PageRun run;
    run.base = kept.pool->arena().base();
    run.frames = segment->FramesOf(kept).data();
    run.frame_stride = kept.pool->arena().frame_bytes();
    run.num_pages = static_cast<int>(kept.num_pages());
    run.num_tokens = static_cast<int>(kept.num_tokens);
    run.first_head = kept.head;
    run.end_head = kept.head + 1;
    run.positions = segment->PositionsOf(kept).data();
    run.first_position = run.positions[0];
    run.format = kept.format;
    run.layout = kept.layout;
    runs->push_back(run);
  }
}

std::int64_t KvCache::KeptTokens(SequenceId id) const {
  const Sequence& sequence = state_->sequences->Get(id);
  std::int64_t heads = 0;
  for (const LayerShape& shape : state_->geometry.layers) {
    if (shape.window == 0) heads += shape.kv_heads;
  }
  if (sequence.segment == nullptr || heads == 0) return sequence.length;
  const std::int64_t tokens = HeldTokens(state_->geometry, sequence.segment, sequence.length);
  return (tokens + heads - 1) / heads;
}

std::uint64_t KvCache::HeldBytes(SequenceId id) const {
  const Sequence& sequence = state_->sequences->Get(id);
  std::uint64_t bytes = sequence.segment == nullptr ? 0 : sequence.segment->page_bytes;
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    const PageTable& table = sequence.tables[group];
    for (const BlockStretch& stretch : table.Stretches(0, table.end_block())) {
      bytes +=
          stretch.frames.size() * sequence.format->in(stretch.is_sealed).layout.frame_bytes[group];
    }
  }
  return bytes;
}

Result<std::uint64_t> KvCache::KeptPageBytes(const KvFormat& format, int layer_index) const {
  SKV_CHECK(layer_index >= 0 && layer_index < num_layers());
  SKV_ASSIGN_OR_RETURN(const FormatPlan plan,
                       FormatPlan::For(state_->geometry.layers, format.key, format.value));
  const PageLayout layout =
      PageLayout::For(plan.sealed.layer(layer_index), layer(layer_index).head_dim);
  return layout.bytes + kPageTokens * sizeof(std::int32_t);
}

SegmentTotals KvCache::segment_totals() const { return state_->sequences->segments().totals(); }

std::vector<SegmentDescription> KvCache::DescribeSegments() const {
  return state_->sequences->segments().Describe();
}

}  // namespace swiftkv
