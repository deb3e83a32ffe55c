// SPDX-License-Identifier: Apache-2.0
// Cuts ranked pages by the shares of formats.
#include "policy/kept_pages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace swiftkv {

KeptPages KeptPages::WithOneMore() const {
  SKV_CHECK(count_ < most_);
  KeptPages larger = *this;
  ++larger.count_;
  return larger;
}

KeptPages KeptPages::WithOneBetter() const {
  KeptPages better = *this;
  if (End(0) < count_) ++better.improved_;
  return better;
}

int KeptPages::End(std::size_t format) const {
  if (format + 1 == shares_.size()) return count_;
  const double share = std::accumulate(
      shares_.begin(), shares_.begin() + static_cast<std::ptrdiff_t>(format) + 1, 0.0);
  constexpr double kRounding = 1e-9;  // 0.1 + 0.2 of 10 pages are 3
  const auto part = static_cast<int>(std::floor(share * count_ + kRounding));
  if (format > 0) return std::min(count_, std::max(part, End(0)));
  return std::min(count_, std::max(part, sink_pages_) + improved_);
}

std::vector<int> KeptPages::Ends() const {
  std::vector<int> ends;
  for (std::size_t format = 0; format < shares_.size(); ++format) ends.push_back(End(format));
  return ends;
}

std::uint64_t KeptPages::Bytes(std::span<const std::uint64_t> page_bytes) const {
  std::uint64_t bytes = 0;
  int begin = 0;
  for (std::size_t format = 0; format < shares_.size(); ++format) {
    const int end = End(format);
    bytes += static_cast<std::uint64_t>(end - begin) * page_bytes[format];
    begin = end;
  }
  return bytes;
}

}  // namespace swiftkv
