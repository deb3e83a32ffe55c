// SPDX-License-Identifier: Apache-2.0
// Splits the file into lines; no message quotes what it holds.
#include "tools/key_file.h"

#include <fmt/format.h>

#include <fstream>

namespace swiftkv {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr const char* kBlanks = " \t\r\n";

std::string WithoutBlanks(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

Status AppendKeysOfFile(const std::string& path, std::vector<std::string>* keys) {
  if (path.empty()) return Status::Ok();
  std::ifstream file(path);
  const std::size_t keys_before = keys->size();
  std::size_t bytes = 0;
  for (std::string line; std::getline(file, line);) {
    bytes += line.size() + 1;
    if (bytes > kMostBytes) {
      return Status::InvalidArgument(
          fmt::format("a file of keys may have {} bytes, more are in: {}", kMostBytes, path));
    }
    const std::string key = WithoutBlanks(line);
    if (!key.empty() && key.front() != '#') keys->push_back(key);
  }
  // A folder opens, and fails to be read.
  if (!file.is_open() || file.bad()) {
    return Status::NotFound("the file of keys cannot be read: " + path);
  }
  if (keys->size() == keys_before) {
    return Status::InvalidArgument("a file of keys must hold one on a line, there is none in: " +
                                   path);
  }
  return Status::Ok();
}

}  // namespace swiftkv
