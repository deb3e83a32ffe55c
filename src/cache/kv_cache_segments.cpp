// SPDX-License-Identifier: Apache-2.0
// Offers compressed segments through the public cache.
#include "base/check.h"
#include "base/status_macros.h"
#include "cache/kv_cache_state.h"

namespace swiftkv {

Result<CompactionResult> KvCache::Compact(SequenceId, const CompactionOrder&) {
  return Status::Unsupported("this cache cannot compact sequences yet");
}

std::int64_t KvCache::FindSegment(const KvFormat&, const PrefixScope&,
                                  std::span<const std::int32_t>, std::string_view) const {
  return 0;
}

Result<std::int64_t> KvCache::AdoptSegment(SequenceId, std::span<const std::int32_t>,
                                           std::string_view) {
  return 0;
}

Status KvCache::PinSegment(const KvFormat&, const PrefixScope&, std::span<const std::int32_t>,
                           std::string_view, std::int64_t) {
  return Status::NotFound("no segment was made");
}

std::int64_t KvCache::SegmentEnd(SequenceId) const { return 0; }

void KvCache::AppendKeptPositions(SequenceId, int, int, std::vector<std::int32_t>*) const {}

std::int64_t KvCache::KeptTokens(SequenceId sequence) const { return Length(sequence); }

std::uint64_t KvCache::HeldBytes(SequenceId id) const {
  const Sequence& sequence = state_->sequences->Get(id);
  std::uint64_t bytes = 0;
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

SegmentTotals KvCache::segment_totals() const { return {}; }

}  // namespace swiftkv
