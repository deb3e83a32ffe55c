// SPDX-License-Identifier: Apache-2.0
// Finds stretches of pages that several sequences hold in common, so that they are read once for
// all of them.
//
// What counts is where pages lie, as a fork or a prefix hit leaves it: equal frames of the same
// arena, as many valid slots, the same positions. Contents are never looked at. Neighbouring
// stretches with the same readers form a group; a sequence that shares less far than another gives
// smaller groups behind larger ones, so that any nesting comes out by itself. Cost: one comparison
// of frame lists per stretch that is shared, and a first frame per pair of sequences where not.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "attention/page_stretches.h"

namespace swiftkv {

// The stretches [first_stretch, end_stretch) of a list that one sequence reads.
struct PageReader {
  std::span<const PageRun> runs;
  int first_stretch;
  int end_stretch;
};

class SharedPages {
 public:
  // Readers are known by their index.
  SharedPages(std::span<const PageReader> readers, const StretchList& list);

  // Returns the group of a stretch. All members of a group have all its stretches, one behind the
  // other.
  int group(int stretch) const { return groups_[static_cast<std::size_t>(stretch)]; }

  int num_groups() const { return static_cast<int>(first_member_.size()) - 1; }

  // The readers of a group, rising.
  std::span<const int> members(int group) const;

 private:
  // Gives the current stretch of each of `readers`, which are all equal, to a group.
  void Assign(std::span<const int> readers, std::span<const int> next);

  std::vector<int> groups_;        // per stretch
  std::vector<int> last_;          // per reader: the group of its latest stretch, -1 before
  std::vector<int> first_member_;  // per group, and one more: into members_
  std::vector<int> members_;
};

}  // namespace swiftkv
