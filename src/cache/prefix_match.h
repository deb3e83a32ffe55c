// SPDX-License-Identifier: Apache-2.0
// Looks a prompt up in the prefix index: how far it hits, and why no further. Changes nothing.
#pragma once

#include <cstdint>
#include <span>

#include "cache/prefix_index.h"

namespace swiftkv {

struct PrefixQuery {
  BlockKey root;  // of the scope
  PrefixIndex::Wanted wanted;
  std::span<const std::int32_t> tokens;  // the whole prompt
  bool leaves_one = true;                // the last token is not looked for
  // Where the reader has blocks already: their last node, and for every group the blocks [0, held)
  // that need not be found. Empty and kNoNode where it has none.
  NodeId from = kNoNode;
  std::span<const std::int64_t> held;  // [groups] blocks

  std::int64_t most_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) - (leaves_one ? 1 : 0);
  }
};

struct PrefixMatch {
  NodeId node = kNoNode;    // of the last whole block, which may be the root; kNoNode for neither
  std::int64_t blocks = 0;  // whole ones, from position 0
  NodeId tail = kNoNode;    // a block whose first tokens continue the prompt
  int tail_tokens = 0;
  PrefixHit hit;
};

class PrefixMatcher {
 public:
  // Both outlive the matcher.
  PrefixMatcher(const CacheGeometry* geometry, const PrefixIndex* index)
      : geometry_(geometry), index_(index) {}

  PrefixMatch Find(const PrefixQuery& query) const;

 private:
  // A continuation that is known, and its first tokens that agree with the prompt's.
  struct Continuation {
    NodeId node = kNoNode;
    int agreeing = 0;
  };

  // Goes back to the longest prefix that has the frames which its windows see; returns whether that
  // was shorter.
  bool CutToWindows(const PrefixQuery& query, PrefixMatch* match) const;
  bool HasWindowFrames(NodeId id) const;
  // The closest of the newest published children; only those that may be taken.
  Continuation Closest(const PrefixQuery& query, const PrefixMatch& match, bool usable) const;
  PrefixEnd WhyNoFurther(const PrefixQuery& query, const PrefixMatch& match,
                         Continuation closest) const;
  bool IsKnownUnderOtherSalts(const PrefixQuery& query) const;

  const CacheGeometry* const geometry_;
  const PrefixIndex* const index_;
};

}  // namespace swiftkv
