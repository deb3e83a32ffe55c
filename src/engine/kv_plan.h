// SPDX-License-Identifier: Apache-2.0
// Counts, without a cache and without a model, what requests will take in the cache.
// Layer: engine.
//
// Pure arithmetic with the cache's own rules: pages and their formats (swiftkv/page_layout.h),
// guard rails of few bits (cache/format_plan.h), blocks that a window has left
// (cache/cache_geometry.h). Serves shapes that no model here computes yet, such as one latent row
// for all heads; those have the pages that the formats would give them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "swiftkv/page_layout.h"
#include "swiftkv/status.h"

namespace swiftkv {

// What one token stores in one layer: kv_heads rows of K and of V.
struct PlanLayer {
  int kv_heads = 0;
  int key_dim = 0;    // values of a row
  int value_dim = 0;  // 0: none, V is computed from the row of K (multi-head latent attention)
  int window = 0;     // tokens that a query sees, itself included; 0 sees all

  friend bool operator==(const PlanLayer&, const PlanLayer&) = default;
};

// Requests that are alike.
struct PlannedRequest {
  std::int64_t tokens = 0;         // when it ends: prompt and reply
  std::int64_t prefix_tokens = 0;  // the first of them, which all requests have in common
  double removed = 0;              // fraction that a policy drops in layers that see everything
};

class KvPlan {
 public:
  // The tokens of a prompt that one step stores before windows drop and blocks are re-encoded.
  static constexpr std::int64_t kStepTokens = 512;

  // Errors: InvalidArgument for a format that does not serve a layer's rows.
  static Result<KvPlan> Make(std::span<const PlanLayer> layers, const PageFormat& format);

  // Bytes of one token in all layers, once it is old enough for the fewest bits.
  std::uint64_t TokenBytes(double removed = 0) const;
  // Bytes that another token adds to a sequence that is longer than every window.
  std::uint64_t GrowthBytes(double removed = 0) const;
  // Pages that a request holds when it ends. Bookkeeping and the rest of an OS page are not in it.
  std::uint64_t RequestBytes(const PlannedRequest& request) const;
  // What a cache with one such request maps beside its pages: tables and counts. Names of
  // blocks, for others to find, are not in it.
  std::uint64_t BookkeepingBytes(const PlannedRequest& request) const;
  // What a contiguous reservation of `tokens` takes: every layer, every token.
  std::uint64_t ReservedBytes(std::int64_t tokens) const;

  // The least bound of a cache in which `count` requests can be at their ends at once while one
  // step stores a prompt: pages, a prefix once, bookkeeping.
  std::uint64_t BoundFor(const PlannedRequest& request, std::int64_t count) const;
  // The most requests that such a cache holds.
  std::int64_t RequestsWithin(const PlannedRequest& request, std::uint64_t bytes) const;
  // The longest that each of `count` requests may be, up to `request.tokens`.
  std::int64_t TokensWithin(PlannedRequest request, std::int64_t count, std::uint64_t bytes) const;

 private:
  // Layers whose pages share a frame.
  struct Group {
    PlanLayer shape;
    std::uint64_t open_bytes = 0;    // a frame of 16 tokens, as written
    std::uint64_t sealed_bytes = 0;  // once old; open_bytes where nothing is re-encoded
  };
  // Frames by layout.
  struct Frames {
    std::int64_t open = 0;
    std::int64_t sealed = 0;

    std::int64_t all() const { return open + sealed; }
  };

  struct Bound {
    std::uint64_t pages = 0;
    std::uint64_t bookkeeping = 0;
  };

  static Frames HeldFrames(const Group& group, std::int64_t length, std::int64_t end);
  static Frames FramesOf(const Group& group, std::int64_t length, std::int64_t first_block,
                         std::int64_t end_block);
  static Frames MostFrames(const Group& group, std::int64_t tokens);
  static Frames SharedFrames(const Group& group, std::int64_t tokens, std::int64_t prefix);
  static Frames LentFrames(const Group& group, std::int64_t tokens, std::int64_t prefix);
  static Frames AllFrames(const Group& group, const PlannedRequest& request, std::int64_t count);
  static std::uint64_t BytesOf(const Group& group, const Frames& frames);
  static std::int64_t TokensIn(const Group& group, std::int64_t tokens, double removed);
  static std::uint64_t StepBytes(const Group& group, std::int64_t tokens);

  std::uint64_t HeapBytes(const PlannedRequest& request, std::int64_t count) const;
  Bound BoundParts(const PlannedRequest& request, std::int64_t count) const;

  std::vector<Group> groups_;
};

}  // namespace swiftkv
