// SPDX-License-Identifier: Apache-2.0
// Joins geometry, budget and sequences into the public cache.
#include "swiftkv/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "cache/kv_cache_state.h"

namespace swiftkv {
namespace {

const LayerPlace& PlaceOf(const StoredLayout& stored, int layer) {
  const std::vector<LayerPlace>& places = stored.layout.places;
  SKV_CHECK(layer >= 0 && static_cast<std::size_t>(layer) < places.size());
  return places[static_cast<std::size_t>(layer)];
}

bool GuidesFit(const KeyGuides& guides, const std::vector<LayerShape>& layers) {
  if (guides.size() != layers.size()) return false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto dim = static_cast<std::size_t>(layers[i].head_dim);
    if (guides[i].size() != static_cast<std::size_t>(layers[i].kv_heads)) return false;
    for (const RoundingGuide& guide : guides[i]) {
      if (guide.weights.size() != dim || guide.spread.size() != dim * dim) return false;
    }
  }
  return true;
}

// Two blocks, because heads may begin a page each in two formats before a block is free; what the
// bookkeeping of new size classes takes; and the positions of all that the bound can hold.
std::uint64_t HeadroomBytes(const KvCacheOptions& options, std::uint64_t block_bytes) {
  if (!options.keeps_headroom) return 0;
  constexpr std::uint64_t kBookkeepingPages = 16;
  constexpr std::uint64_t kBytesPerPositionByte = 64;
  return 2 * block_bytes + kBookkeepingPages * OsPageBytes() +
         options.memory_bytes / kBytesPerPositionByte;
}

std::uint64_t BytesPerToken(const StoredFormat& format) {
  return format.sealed.layout.block_bytes() / kPageTokens;
}

}  // namespace

KvCache::KvCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
KvCache::~KvCache() = default;

Result<std::unique_ptr<KvCache>> KvCache::Create(const KvCacheOptions& options) {
  const KvFormat format = {options.key_format, options.value_format};
  SKV_ASSIGN_OR_RETURN(CacheGeometry geometry, CacheGeometry::For(options.layers));
  if (options.key_guides != nullptr) {
    SKV_CHECK(GuidesFit(*options.key_guides, options.layers), "the guides are another model's");
    geometry.key_guides = options.key_guides;
  }
  SKV_ASSIGN_OR_RETURN(FormatPlan plan, FormatPlan::For(geometry.layers, format.key, format.value));
  const BlockLayout open = BlockLayout::For(geometry, std::move(plan.open));
  const std::uint64_t headroom = HeadroomBytes(options, open.block_bytes());
  const std::uint64_t smallest =
      SmallestBound(open, BlockLayout::For(geometry, std::move(plan.sealed))) + headroom;
  if (options.memory_bytes < smallest) {
    return Status::InvalidArgument(
        fmt::format("the KV cache needs at least {} bytes for one block of 16 tokens, not: {}",
                    smallest, options.memory_bytes));
  }
  constexpr std::uint64_t kAddressable = std::uint64_t{1} << 46;  // half of x86-64's user space
  if (options.memory_bytes > kAddressable) {
    return Status::InvalidArgument(
        fmt::format("the KV cache may be bounded by up to {} bytes, not: {}", kAddressable,
                    options.memory_bytes));
  }
  auto state = std::make_unique<State>(std::move(geometry), options.memory_bytes);
  state->sequences = std::make_unique<SequenceSet>(
      &state->geometry, &state->budget,
      FramePool::Options{.poison = options.poison_free_frames, .huge_pages = options.huge_pages});
  state->model_fingerprint = options.model_fingerprint;
  SKV_RETURN_IF_ERROR(state->sequences->Open());
  SKV_ASSIGN_OR_RETURN(state->own_format, state->sequences->Know(format));
  state->budget.KeepHeadroom(headroom);
  return std::unique_ptr<KvCache>(new KvCache(std::move(state)));
}

Result<SequenceId> KvCache::CreateSequence() {
  return state_->sequences->CreateSequence(state_->own_format);
}

Result<SequenceId> KvCache::CreateSequence(const KvFormat& format) {
  SKV_ASSIGN_OR_RETURN(const StoredFormat* const stored, state_->sequences->Know(format));
  return state_->sequences->CreateSequence(stored);
}

Result<SequenceId> KvCache::CreateSequence(const KvFormat& format, const PrefixScope& scope) {
  SKV_ASSIGN_OR_RETURN(const StoredFormat* const stored, state_->sequences->Know(format));
  return state_->sequences->CreateSequence(stored, state_->RootOf(scope), scope);
}

PrefixHit KvCache::FindPrefix(const KvFormat& format, const PrefixScope& scope,
                              std::span<const std::int32_t> tokens) const {
  if (!scope.share) return {.end = PrefixEnd::kNotShared};
  return state_->sequences->FindPrefix(format, state_->RootOf(scope), scope.allowed, tokens);
}

Result<PrefixHit> KvCache::AdoptPrefix(SequenceId sequence, std::span<const std::int32_t> tokens) {
  return state_->sequences->AdoptPrefix(sequence, tokens);
}

void KvCache::Commit(SequenceId sequence, std::span<const std::int32_t> tokens) {
  state_->sequences->Commit(sequence, tokens);
}

void KvCache::WorsenGrade(SequenceId sequence, Quality grade) {
  state_->sequences->WorsenGrade(sequence, grade);
}

Status KvCache::PinPrefix(const KvFormat& format, const PrefixScope& scope,
                          std::span<const std::int32_t> tokens, std::int64_t until_ms) {
  return state_->sequences->PinPrefix(format, state_->RootOf(scope), scope.allowed, tokens,
                                      until_ms);
}

void KvCache::SetTime(std::int64_t milliseconds) { state_->sequences->SetTime(milliseconds); }

std::uint64_t KvCache::ReclaimableBytes() const {
  return state_->sequences->index().reclaimable_bytes() +
         state_->sequences->segments().reclaimable_bytes();
}

Status KvCache::UnpinPrefix(const KvFormat& format, const PrefixScope& scope,
                            std::span<const std::int32_t> tokens) {
  return state_->sequences->UnpinPrefix(format, state_->RootOf(scope), tokens);
}

PinnedPrefixes KvCache::pinned_prefixes() const { return state_->sequences->index().pinned(); }

DroppedPrefixes KvCache::DropPrefixes() { return state_->sequences->DropPrefixes(); }

DroppedPrefixes KvCache::DropPrefixes(const PrefixScope& scope) {
  return state_->sequences->DropPrefixes(state_->RootOf(scope));
}

PrefixCounters KvCache::prefix_counters() const { return state_->sequences->index().counters(); }

Result<SequenceId> KvCache::Fork(SequenceId parent) { return state_->sequences->Fork(parent); }

void KvCache::Release(SequenceId sequence) { state_->sequences->Release(sequence); }

Status KvCache::Reserve(SequenceId sequence, int num_tokens) {
  return state_->sequences->Reserve(sequence, num_tokens);
}

void KvCache::Commit(SequenceId sequence, int num_tokens) {
  state_->sequences->Commit(sequence, num_tokens);
}

Status KvCache::Truncate(SequenceId sequence, std::int64_t length) {
  return state_->sequences->Truncate(sequence, length);
}

std::int64_t KvCache::Length(SequenceId sequence) const {
  return state_->sequences->Get(sequence).length;
}

void KvCache::StoreRows(const KvRows& rows) const {
  const Sequence& sequence = state_->sequences->Get(rows.sequence);
  const LayerPlace& place = PlaceOf(sequence.format->open, rows.layer);
  const LayerShape& shape = layer(rows.layer);
  const auto group = static_cast<std::size_t>(place.group);
  const PageTable& table = sequence.tables[group];
  const FramePool& frames = *sequence.format->open.pools[group];
  SKV_CHECK(rows.first_position >= sequence.length && rows.num_tokens >= 0 &&
                rows.first_position + rows.num_tokens <= sequence.reserved_end,
            "rows go to reserved positions");
  SKV_CHECK(rows.first_head >= 0 && rows.end_head <= shape.kv_heads);
  for (int done = 0; done < rows.num_tokens;) {
    const std::int64_t position = rows.first_position + done;
    const int slot = static_cast<int>(position % kPageTokens);
    const SlotRange slots = {slot, std::min(kPageTokens - slot, rows.num_tokens - done)};
    const std::uint32_t frame = table.frame(position / kPageTokens);
    SKV_CHECK(!table.IsSealed(position / kPageTokens), "a sealed frame never changes");
    SKV_CHECK(frames.IsWritable(frame), "a frame that others see never changes");
    std::byte* const pages = frames.arena().Frame(frame) + place.layer_offset;
    const std::size_t first_row = static_cast<std::size_t>(done) * rows.token_stride;
    for (int head = rows.first_head; head < rows.end_head; ++head) {
      std::byte* const page = pages + static_cast<std::size_t>(head) * place.head_stride;
      const std::size_t row = first_row + static_cast<std::size_t>(head * shape.head_dim);
      MutablePlane keys = MutableKeyPlane(place.format, place.layout, shape.head_dim, page);
      keys.guide = state_->geometry.guide(rows.layer, static_cast<std::size_t>(head));
      place.format.key->Encode(keys, slots, rows.keys + row, rows.token_stride);
      place.format.value->Encode(
          MutableValuePlane(place.format, place.layout, shape.head_dim, page), slots,
          rows.values + row, rows.token_stride);
    }
    done += slots.count;
  }
}

void KvCache::AppendRuns(SequenceId id, int layer_index, int extra_tokens,
                         std::vector<PageRun>* runs) const {
  const Sequence& sequence = state_->sequences->Get(id);
  const StoredFormat& format = *sequence.format;
  const auto group = static_cast<std::size_t>(PlaceOf(format.open, layer_index).group);
  const PageTable& table = sequence.tables[group];
  const std::int64_t end = sequence.length + extra_tokens;
  SKV_CHECK(extra_tokens >= 0 && end <= sequence.reserved_end, "views end at what is reserved");
  AppendSegmentRuns(id, layer_index, runs);
  for (const BlockStretch& stretch : table.Stretches(table.first_block(), BlocksFor(end))) {
    if (stretch.frames.empty()) continue;
    const LayerPlace& place = PlaceOf(format.in(stretch.is_sealed), layer_index);
    const Arena& arena = format.in(stretch.is_sealed).pools[group]->arena();
    const auto pages = static_cast<std::int64_t>(stretch.frames.size());
    PageRun run;
    run.base = arena.base();
    run.frames = stretch.frames.data();
    run.frame_stride = arena.frame_bytes();
    run.layer_offset = place.layer_offset;
    run.head_stride = place.head_stride;
    run.first_position = stretch.first * kPageTokens;
    run.num_pages = static_cast<int>(pages);
    run.num_tokens = static_cast<int>(std::min(pages * kPageTokens, end - run.first_position));
    run.first_head = 0;
    run.end_head = layer(layer_index).kv_heads;
    run.format = place.format;
    run.layout = place.layout;
    runs->push_back(run);
  }
}

int KvCache::num_layers() const { return static_cast<int>(state_->geometry.layers.size()); }

const LayerShape& KvCache::layer(int index) const {
  SKV_CHECK(index >= 0 && index < num_layers());
  return state_->geometry.layers[static_cast<std::size_t>(index)];
}

Quality KvCache::format_quality() const { return state_->own_format->quality(); }

Quality KvCache::format_quality(SequenceId sequence) const {
  return state_->sequences->Get(sequence).format->quality();
}

std::string KvCache::format_name() const { return PageFormatName(state_->own_format->asked); }

std::string KvCache::format_name(SequenceId sequence) const {
  return PageFormatName(state_->sequences->Get(sequence).format->asked);
}

std::uint64_t KvCache::bytes_per_token() const { return BytesPerToken(*state_->own_format); }

std::uint64_t KvCache::bytes_per_token(SequenceId sequence) const {
  return BytesPerToken(*state_->sequences->Get(sequence).format);
}

std::uint64_t KvCache::contiguous_bytes(std::int64_t max_tokens) const {
  const StoredFormat& format = *state_->own_format;
  const std::int64_t sealed = std::max<std::int64_t>(0, (SealedEnd(max_tokens) - 1) * kPageTokens);
  return format.open.layout.block_bytes() / kPageTokens *
             static_cast<std::uint64_t>(max_tokens - sealed) +
         BytesPerToken(format) * static_cast<std::uint64_t>(sealed);
}

double KvCache::bits_per_value(SequenceId id) const {
  const Sequence& sequence = state_->sequences->Get(id);
  double bits = 0;
  double values = 0;
  for (std::size_t group = 0; group < sequence.tables.size(); ++group) {
    const PageTable& table = sequence.tables[group];
    const auto token_values = static_cast<double>(state_->geometry.values_per_token(group));
    for (const BlockStretch& stretch : table.Stretches(0, BlocksFor(sequence.length))) {
      const std::int64_t begin = stretch.first * kPageTokens;
      const auto held = static_cast<std::int64_t>(stretch.frames.size()) * kPageTokens;
      const auto tokens = static_cast<double>(std::min(held, sequence.length - begin));
      if (held == 0) continue;
      const StoredLayout& stored = sequence.format->in(stretch.is_sealed);
      bits += tokens * 8.0 * static_cast<double>(stored.layout.frame_bytes[group]) / kPageTokens;
      values += tokens * token_values;
    }
  }
  if (sequence.segment != nullptr) {
    for (const SegmentRun& run : sequence.segment->runs) {
      const auto tokens = static_cast<double>(run.num_tokens);
      bits += tokens * 8.0 * run.layout.bytes / kPageTokens;
      values += tokens * 2 * layer(run.layer).head_dim;
    }
  }
  return values > 0 ? bits / values : 0;
}

KvBalance KvCache::Balance() const {
  KvBalance balance;
  for (const auto& pool : state_->sequences->pools()) {
    balance.live_private_bytes += pool->private_bytes();
    balance.live_shared_bytes += pool->shared_bytes();
    balance.cached_bytes += pool->cached_bytes();
    balance.free_bytes += pool->free_bytes();
    balance.metadata_bytes += pool->metadata_bytes();
    balance.returned_bytes += pool->arena().returned_bytes();
  }
  // A segment is the one owner of its pages, whoever stands on it.
  const SegmentStore& segments = state_->sequences->segments();
  balance.live_private_bytes -= segments.shared_bytes() + segments.idle_bytes();
  balance.live_shared_bytes += segments.shared_bytes();
  balance.cached_bytes += segments.idle_bytes();
  balance.metadata_heap_bytes = state_->sequences->ledger().charged_bytes();
  balance.metadata_bytes += balance.metadata_heap_bytes;
  balance.metadata_bytes += state_->sequences->index().metadata_bytes();
  balance.mapped_bytes = state_->budget.used_bytes();
  balance.peak_bytes = state_->budget.peak_bytes();
  balance.limit_bytes = state_->budget.limit_bytes();
  balance.live_tokens = state_->sequences->live_tokens();
  return balance;
}

void KvCache::CheckInvariants() const {
  state_->sequences->CheckInvariants();
  const KvBalance balance = Balance();
  SKV_CHECK(balance.live_private_bytes + balance.live_shared_bytes + balance.cached_bytes +
                    balance.free_bytes + balance.metadata_bytes ==
                balance.mapped_bytes,
            "every mapped byte has one place in the balance");
}

}  // namespace swiftkv
