// SPDX-License-Identifier: Apache-2.0
// Says in which formats the kept pages of one head are, the best ones in the largest format.
//
// As pages are added one by one, no page ever moves to a smaller format: the first n pages are cut
// where the parts of n, rounded down, end. So bytes rise with every page.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace swiftkv {

class KeptPages {
 public:
  // Begins with the sinks' pages, which are always in the first format. `shares`, which outlives
  // the object, add up to 1; there are `most` pages in all.
  KeptPages(std::span<const double> shares, int sink_pages, int most)
      : shares_(shares), sink_pages_(sink_pages), most_(most), count_(sink_pages) {}

  // Keeps the next page; there is one.
  KeptPages WithOneMore() const;

  // Moves the best page of a smaller format to the first; where there is none, changes nothing.
  KeptPages WithOneBetter() const;

  // Returns where each format's pages end among the head's, ranked.
  std::vector<int> Ends() const;

  // Returns what all take; `page_bytes` of each format.
  std::uint64_t Bytes(std::span<const std::uint64_t> page_bytes) const;

 private:
  int End(std::size_t format) const;

  std::span<const double> shares_;
  int sink_pages_;
  int most_;
  int count_;
  int improved_ = 0;  // pages in the first format beyond its share
};

}  // namespace swiftkv
