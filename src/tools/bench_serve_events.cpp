// SPDX-License-Identifier: Apache-2.0
// Collects lines byte by byte, so that no cut can fall where it matters.
#include "tools/bench_serve_events.h"

#include <utility>

namespace swiftkv {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

std::vector<std::string> EventStreamReader::Take(std::string_view bytes) {
  std::vector<std::string> events;
  for (const char c : bytes) {
    if (overflowed_) break;
    const bool ends_return = std::exchange(after_return_, c == '\r') && c == '\n';
    if (ends_return) continue;
    if (c == '\r' || c == '\n') {
      EndLine(&events);
      continue;
    }
    line_ += c;
    overflowed_ = line_.size() + data_.size() > kMostBytes;
  }
  return events;
}

void EventStreamReader::EndLine(std::vector<std::string>* events) {
  std::string_view line = line_;
  if (std::exchange(first_line_, false) && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) {
    if (!data_.empty()) events->push_back(std::move(data_));
    data_.clear();
    has_data_ = false;
  } else {
    const std::size_t colon = line.find(':');
    if (line.substr(0, colon) == "data") {
      std::string_view value =
          colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
      if (value.starts_with(' ')) value.remove_prefix(1);
      if (std::exchange(has_data_, true)) data_ += '\n';
      data_ += value;
    }
  }
  line_.clear();
}

}  // namespace swiftkv
