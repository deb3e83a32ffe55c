// SPDX-License-Identifier: Apache-2.0
// Pins prefixes and drops them, as callers ask for.
#include <fmt/format.h>

#include <numeric>

#include "cache/sequence_set.h"

namespace swiftkv {

Status SequenceSet::PinPrefix(const KvFormat& format, const BlockKey& root, Quality allowed,
                              std::span<const std::int32_t> tokens, std::int64_t until_ms) {
  PrefixQuery query;
  query.root = root;
  query.wanted = {formats_.FindKnown(format), allowed};
  query.tokens = tokens;
  query.leaves_one = false;
  const auto wanted = static_cast<std::int64_t>(tokens.size()) / kPageTokens;
  std::int64_t found = 0;
  const bool has_room = WithEviction([&] {  // which may take what was found before
    const PrefixMatch match = PrefixMatcher(geometry_, &index_).Find(query);
    found = match.blocks;
    return found < wanted || wanted == 0 || index_.TryPin(match.node, until_ms);
  });
  if (found < wanted || wanted == 0) {
    return Status::NotFound(fmt::format(
        "a prefix of {} whole blocks of 16 tokens can be pinned once all are findable, now are: {}",
        wanted, found));
  }
  if (has_room) return Status::Ok();
  return Status::ResourceExhausted(
      fmt::format("the KV cache has no room to note {} pinned blocks; {} of {} bytes are left",
                  wanted, budget_->left_bytes(), budget_->limit_bytes()));
}

Status SequenceSet::UnpinPrefix(const KvFormat& format, const BlockKey& root,
                                std::span<const std::int32_t> tokens) {
  BlockKey key = root;
  const std::size_t blocks = tokens.size() / kPageTokens;
  for (std::size_t block = 0; block < blocks; ++block) {
    key = ChildKey(key, tokens.subspan(block * kPageTokens, kPageTokens));
  }
  if (index_.Unpin(key, formats_.FindKnown(format))) return Status::Ok();
  return Status::NotFound(fmt::format(
      "only a prefix that was pinned, for longer than until now, can be unpinned; no pin ends with "
      "block: {}",
      blocks));
}

DroppedPrefixes SequenceSet::DropPrefixes() {
  const std::uint64_t before = CachedBytes();
  for (Sequence& sequence : slots_) {
    if (sequence.live) Unname(&sequence);
  }
  const std::uint64_t blocks = index_.Clear() + segments_.DropAll();
  return {blocks, before - CachedBytes()};
}

DroppedPrefixes SequenceSet::DropPrefixes(const BlockKey& root) {
  const std::uint64_t before = CachedBytes();
  for (Sequence& sequence : slots_) {
    if (sequence.live && sequence.names.scope == root) Unname(&sequence);
  }
  const std::uint64_t blocks = index_.Clear(root) + segments_.DropScope(root);
  return {blocks, before - CachedBytes()};
}

bool SequenceSet::EvictNext() {
  const CompressedSegment* const segment = segments_.EvictionCandidate();
  if (segment == nullptr || (index_.evicts_next() && index_.next_age() <= segment->age)) {
    return index_.EvictNext();
  }
  segments_.Evict(segment);
  return true;
}

void SequenceSet::SetTime(std::int64_t milliseconds) {
  index_.SetTime(milliseconds);
  segments_.SetTime(milliseconds);
}

std::uint64_t SequenceSet::CachedBytes() const {
  return std::accumulate(
      pools().begin(), pools().end(), segments_.idle_bytes(),
      [](std::uint64_t sum, const auto& pool) { return sum + pool->cached_bytes(); });
}

}  // namespace swiftkv
