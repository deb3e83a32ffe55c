// SPDX-License-Identifier: Apache-2.0
// Reads with read(2), which an interrupt wakes.
#include "tools/input_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tools/interrupt.h"

namespace swiftkv {
namespace {

constexpr std::size_t kReadBytes = 64UL << 10;

// Appends what one read gives. Returns its bytes, 0 at the end, -1 with errno set.
ssize_t ReadSome(int descriptor, std::string* buffer) {
  std::array<char, kReadBytes> bytes;
  const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
  if (got > 0) buffer->append(bytes.data(), static_cast<std::size_t>(got));
  return got;
}

}  // namespace

LineOutcome InputLines::Next(std::string* line) {
  while (true) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos || (at_end_ && !buffer_.empty())) {
      *line = buffer_.substr(0, end);
      buffer_.erase(0, end == std::string::npos ? end : end + 1);
      if (!line->empty() && line->back() == '\r') line->pop_back();
      return LineOutcome::kLine;
    }
    if (at_end_) return LineOutcome::kEnd;
    const ssize_t got = ReadSome(descriptor_, &buffer_);
    if (got == 0) at_end_ = true;
    if (got >= 0) continue;
    if (errno == EINTR && !Interrupted()) continue;
    buffer_.clear();
    if (errno == EINTR) return LineOutcome::kInterrupted;
    error_ = std::strerror(errno);
    return LineOutcome::kFailed;
  }
}

Result<std::string> ReadAll(int descriptor, std::size_t most_bytes) {
  std::string text;
  while (true) {
    const ssize_t got = ReadSome(descriptor, &text);
    if (got == 0) return text;
    if (text.size() > most_bytes) {
      return Status::ResourceExhausted(
          fmt::format("it holds more than the {} bytes that a prompt may have", most_bytes));
    }
    if (got > 0 || (errno == EINTR && !Interrupted())) continue;
    if (errno == EINTR) return Status::Cancelled("interrupted");
    return Status::Internal(std::strerror(errno));
  }
}

}  // namespace swiftkv
