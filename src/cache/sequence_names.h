// SPDX-License-Identifier: Apache-2.0
// Knows the tokens that a sequence holds as far as they make blocks findable.
//
// A sequence names its blocks while every commit says which tokens it is of: whole blocks are nodes
// of the prefix index, of which the last one is kept here, and the tokens after them are the tail.
// Once tokens were committed without their names, no further block is named until the sequence is
// cut back to what is.
#pragma once

#include <array>
#include <cstdint>

#include "cache/prefix_node.h"

namespace swiftkv {

struct SequenceNames {
  bool share = false;                // looks for blocks, and lets its own be found
  bool counts = true;                // in PrefixCounters
  bool has_asked = false;            // for a prefix
  std::uint64_t queried_tokens = 0;  // looked for, and taken: not counted yet
  std::uint64_t hit_tokens = 0;
  Quality allowed = Quality::kExact;  // the worst grade that it reads
  Quality grade = Quality::kExact;    // the worst of its format and of all that it has read
  BlockKey scope;                     // its key
  BlockKey root;                      // the scope's, or the lineage of the segment stood on
  NodeId node = kNoNode;              // of the last whole block named, or the root
  std::int64_t end = 0;               // tokens [0, end) are named
  std::int64_t published_end = 0;     // blocks [0, published_end) were made findable, or found
  std::array<std::int32_t, kPageTokens> tail{};  // tokens [end rounded down to blocks, end)

  bool AreComplete(std::int64_t length) const { return share && end == length; }
};

}  // namespace swiftkv
