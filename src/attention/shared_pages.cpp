// SPDX-License-Identifier: Apache-2.0
// Walks the stretches of all readers side by side and compares where their pages lie.
#include "attention/shared_pages.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace swiftkv {
namespace {

// Returns whether equal frames of the two runs are the same memory, read in the same way.
bool SameArena(const PageRun& a, const PageRun& b) {
  return a.base == b.base && a.frames != nullptr && b.frames != nullptr &&
         a.frame_stride == b.frame_stride && a.layer_offset == b.layer_offset &&
         a.head_stride == b.head_stride && a.first_head == b.first_head && a.format == b.format;
}

// Returns the number of valid slots in pages [page, page + count).
int Tokens(const PageRun& run, int page, int count) {
  return std::min(count * kPageTokens, run.num_tokens - page * kPageTokens);
}

// Returns whether `count` pages from page `i` of `a` on are those from page `j` of `b` on.
bool SamePages(const PageRun& a, int i, const PageRun& b, int j, int count) {
  if (!SameArena(a, b) || a.frames[i] != b.frames[j]) return false;
  if (Tokens(a, i, count) != Tokens(b, j, count)) return false;
  if ((a.positions == nullptr) != (b.positions == nullptr)) return false;
  const std::int64_t first_slots[] = {i * kPageTokens, j * kPageTokens};
  if (a.positions == nullptr) {
    if (a.first_position + first_slots[0] != b.first_position + first_slots[1]) return false;
  } else if (a.positions + first_slots[0] != b.positions + first_slots[1]) {
    return false;
  }
  return std::memcmp(a.frames + i, b.frames + j,
                     static_cast<std::size_t>(count) * sizeof(*a.frames)) == 0;
}

// Returns whether the stretches hold the same pages, wherever their runs are cut.
bool SameStretch(const StretchList& list, const PageReader& a, const PageStretch& a_stretch,
                 const PageReader& b, const PageStretch& b_stretch) {
  if (a_stretch.pages != b_stretch.pages) return false;
  int a_span = a_stretch.first_span;
  int b_span = b_stretch.first_span;
  int a_done = 0;  // pages of the span
  int b_done = 0;
  while (a_span < a_stretch.end_span) {
    const PageSpan& x = list.spans[static_cast<std::size_t>(a_span)];
    const PageSpan& y = list.spans[static_cast<std::size_t>(b_span)];
    const int i = x.first_page + a_done;
    const int j = y.first_page + b_done;
    const int count = std::min(x.end_page - i, y.end_page - j);
    if (!SamePages(a.runs[static_cast<std::size_t>(x.run)], i,
                   b.runs[static_cast<std::size_t>(y.run)], j, count)) {
      return false;
    }
    a_done += count;
    b_done += count;
    if (i + count == x.end_page) {
      ++a_span;
      a_done = 0;
    }
    if (j + count == y.end_page) {
      ++b_span;
      b_done = 0;
    }
  }
  return true;
}

}  // namespace

SharedPages::SharedPages(std::span<const PageReader> readers, const StretchList& list)
    : groups_(list.stretches.size(), -1), last_(readers.size(), -1), first_member_{0} {
  const auto stretch = [&](int index) -> const PageStretch& {
    return list.stretches[static_cast<std::size_t>(index)];
  };
  std::vector<int> next;
  for (const PageReader& reader : readers) next.push_back(reader.first_stretch);
  std::vector<int> arrived;
  std::vector<int> left;
  std::vector<int> same;
  std::vector<int> others;
  while (true) {
    // The readers whose next stretch is the lowest.
    arrived.clear();
    for (std::size_t r = 0; r < readers.size(); ++r) {
      if (next[r] == readers[r].end_stretch) continue;
      if (!arrived.empty()) {
        const StretchKey& lowest = stretch(next[static_cast<std::size_t>(arrived[0])]).key;
        if (stretch(next[r]).key > lowest) continue;
        if (stretch(next[r]).key < lowest) arrived.clear();
      }
      arrived.push_back(static_cast<int>(r));
    }
    if (arrived.empty()) return;
    left = arrived;
    while (!left.empty()) {
      const auto first = static_cast<std::size_t>(left[0]);
      same.assign(1, left[0]);
      others.clear();
      for (std::size_t i = 1; i < left.size(); ++i) {
        const auto r = static_cast<std::size_t>(left[i]);
        const bool joins =
            SameStretch(list, readers[first], stretch(next[first]), readers[r], stretch(next[r]));
        (joins ? same : others).push_back(left[i]);
      }
      Assign(same, next);
      left.swap(others);
    }
    for (const int reader : arrived) ++next[static_cast<std::size_t>(reader)];
  }
}

void SharedPages::Assign(std::span<const int> readers, std::span<const int> next) {
  int group = last_[static_cast<std::size_t>(readers[0])];
  bool continues = group >= 0 && members(group).size() == readers.size();
  for (const int reader : readers) {
    continues = continues && last_[static_cast<std::size_t>(reader)] == group;
  }
  if (!continues) {
    group = static_cast<int>(first_member_.size()) - 1;
    members_.insert(members_.end(), readers.begin(), readers.end());
    first_member_.push_back(static_cast<int>(members_.size()));
  }
  for (const int reader : readers) {
    last_[static_cast<std::size_t>(reader)] = group;
    groups_[static_cast<std::size_t>(next[static_cast<std::size_t>(reader)])] = group;
  }
}

std::span<const int> SharedPages::members(int group) const {
  const auto g = static_cast<std::size_t>(group);
  return std::span(members_).subspan(
      static_cast<std::size_t>(first_member_[g]),
      static_cast<std::size_t>(first_member_[g + 1] - first_member_[g]));
}

}  // namespace swiftkv
