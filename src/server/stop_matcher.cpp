// SPDX-License-Identifier: Apache-2.0
// Searches stop strings in what is held back; those are short, so the search is plain.
#include "server/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace swiftkv {

std::string StopMatcher::Feed(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  std::size_t begin = std::string::npos;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t found = held_.find(stop);
    if (found == std::string::npos) continue;
    const std::size_t found_end = found + stop.size();
    if (found_end < end || (found_end == end && found < begin)) {
      begin = found;
      end = found_end;
    }
  }
  stopped_ = begin != std::string::npos;
  const std::size_t shown = stopped_ ? begin : held_.size() - OpenBytes();
  std::string text = held_.substr(0, shown);
  held_.erase(0, shown);
  return text;
}

std::string StopMatcher::Finish() { return stopped_ ? std::string() : std::exchange(held_, {}); }

std::size_t StopMatcher::OpenBytes() const {
  std::size_t open = 0;
  const std::string_view held = held_;
  for (const std::string& stop : stops_) {
    for (std::size_t size = std::min(stop.size() - 1, held.size()); size > open; --size) {
      if (std::string_view(stop).starts_with(held.substr(held.size() - size))) {
        open = size;
        break;
      }
    }
  }
  return open;
}

}  // namespace swiftkv
