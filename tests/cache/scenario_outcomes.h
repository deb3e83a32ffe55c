// SPDX-License-Identifier: Apache-2.0
// Says in words what a scenario's command did: figures that are 0 are left out.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "swiftkv/kv_cache.h"

namespace swiftkv {

inline std::string InKib(std::uint64_t bytes) {
  std::ostringstream text;
  text.precision(12);  // to the byte
  text << static_cast<double>(bytes) / 1024 << " KiB";
  return text.str();
}

inline std::string CountText(std::uint64_t count, const std::string& what) {
  return count == 0 ? "" : std::to_string(count) + " " + what + (count > 1 ? "s" : "");
}

inline std::string BytesText(const std::string& what, std::uint64_t bytes) {
  return bytes == 0 ? "" : what + " " + InKib(bytes);
}

// Lists what is not empty; `nothing` where all is.
inline std::string ListText(const std::vector<std::string>& parts, const std::string& nothing) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text.empty() ? nothing : text;
}

// Why a look-up went no further, and what it found.
inline std::string HitText(const PrefixHit& hit) {
  std::string text = std::string(", ") + PrefixEndName(hit.end);
  if (hit.differs_at >= 0) text += " at " + std::to_string(hit.differs_at);
  if (hit.tokens > 0) text += std::string(", ") + QualityName(hit.grade);
  return text;
}

inline std::string CompactionText(const CompactionResult& result) {
  if (result.was_there) return ", which was there";
  std::ostringstream text;
  text << " keeps " << result.kept_tokens << " of " << result.kept_tokens + result.dropped_tokens
       << " rows, " << InKib(result.source_bytes) << " become " << InKib(result.kept_bytes)
       << (result.in_place ? " in place, " : " beside, ")
       << (result.findable ? "shareable" : "private");
  return text.str();
}

inline std::uint64_t HeldIn(const KvBalance& balance) {
  return balance.live_private_bytes + balance.live_shared_bytes + balance.cached_bytes;
}

// What the end of a sequence did.
inline std::string ReleaseText(const KvBalance& before, const KvBalance& after) {
  return ListText({BytesText("frees", HeldIn(before) - HeldIn(after)),
                   BytesText("caches", after.cached_bytes - before.cached_bytes)},
                  "frees nothing");
}

struct Evictions {
  std::uint64_t blocks = 0;  // so far
  std::uint64_t segments = 0;
  std::uint64_t cached_bytes = 0;  // now
};

inline Evictions EvictionsOf(const KvCache& cache) {
  return {cache.prefix_counters().evicted_blocks, cache.segment_totals().evictions,
          cache.Balance().cached_bytes};
}

inline std::string EvictionText(const Evictions& before, const Evictions& after) {
  if (after.cached_bytes == before.cached_bytes) return "evicts nothing";
  const std::string counts = ListText({CountText(after.blocks - before.blocks, "block"),
                                       CountText(after.segments - before.segments, "segment")},
                                      "windows");
  return "evicts " + counts + ", " + InKib(before.cached_bytes - after.cached_bytes);
}

// Where the bytes are, but for private ones that do not count.
inline std::string PoolText(const KvCache& cache, std::uint64_t uncounted_bytes) {
  const KvBalance balance = cache.Balance();
  const SegmentTotals totals = cache.segment_totals();
  return ListText({BytesText("private", balance.live_private_bytes - uncounted_bytes),
                   BytesText("shared", balance.live_shared_bytes),
                   BytesText("cached", balance.cached_bytes), CountText(totals.segments, "segment"),
                   totals.idle == 0 ? "" : std::to_string(totals.idle) + " idle"},
                  "empty");
}

}  // namespace swiftkv
