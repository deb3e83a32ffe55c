// SPDX-License-Identifier: Apache-2.0
// Reads with system calls, whose errors say who is missing and who forbids.
#include "base/kernel_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

namespace swiftkv {
namespace {

constexpr const char* kBlanks = " \t";

Status Trouble(const std::string& path, int error) {
  if (error == ENOENT || error == ESRCH || error == ENOTDIR) {
    return Status::NotFound("no such file or process: " + path);
  }
  if (error == EACCES || error == EPERM) {
    return Status::InvalidArgument("this user may not read " + path);
  }
  return Status::Internal(fmt::format("{} when reading {}", std::strerror(error), path));
}

void SkipBlanks(std::string_view* text) {
  text->remove_prefix(std::min(text->find_first_not_of(kBlanks), text->size()));
}

}  // namespace

Result<std::string> ReadKernelText(const std::string& path, std::size_t most_bytes) {
  // A pipe in the place of the file would wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return Trouble(path, errno);
  std::string text;
  std::array<char, 1U << 14> buffer;
  int error = 0;
  while (text.size() < most_bytes) {
    const ssize_t count =
        read(descriptor, buffer.data(), std::min(buffer.size(), most_bytes - text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) error = errno;
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(descriptor);
  if (error != 0) return Trouble(path, error);
  return text;
}

bool TakeLine(std::string_view* text, std::string_view* line) {
  if (text->empty()) return false;
  const std::size_t end = std::min(text->find('\n'), text->size());
  *line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return true;
}

std::string_view TakeWord(std::string_view* line) {
  SkipBlanks(line);
  const std::string_view word =
      line->substr(0, std::min(line->find_first_of(kBlanks), line->size()));
  line->remove_prefix(word.size());
  SkipBlanks(line);
  return word;
}

std::optional<std::uint64_t> ToNumber(std::string_view text, int base) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> KilobytesOf(std::string_view line, std::string_view name) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 1024;
  if (!line.starts_with(name)) return std::nullopt;
  line.remove_prefix(name.size());
  SkipBlanks(&line);
  const auto number = ToNumber(line);
  if (!number || *number > kMost) return std::nullopt;
  return *number * 1024;
}

std::optional<std::uint64_t> FindKilobytes(std::string_view text, std::string_view name) {
  for (std::string_view line; TakeLine(&text, &line);) {
    if (const auto bytes = KilobytesOf(line, name)) return bytes;
  }
  return std::nullopt;
}

}  // namespace swiftkv
