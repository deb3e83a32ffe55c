// SPDX-License-Identifier: Apache-2.0
// Implements replacing of files by renaming.
#include "tools/kept_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace swiftkv {
namespace {

Status CannotWrite(const std::string& path) {
  return Status::Internal(fmt::format("cannot be written ({}): {}", std::strerror(errno), path));
}

}  // namespace

Status ReplaceFile(const std::string& path, const std::string& text) {
  std::error_code ignored;  // what fails shows when the file is written
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const std::string pattern = path + ".XXXXXX";
  std::vector<char> name(pattern.c_str(), pattern.c_str() + pattern.size() + 1);
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return CannotWrite(path);
  const bool written =
      ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool closed = ::close(descriptor) == 0;
  if (written && closed && std::rename(name.data(), path.c_str()) == 0) return Status::Ok();
  const Status failed = CannotWrite(path);
  ::unlink(name.data());
  return failed;
}

std::optional<std::string> ReadFileUpTo(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  // By parts: memory for as much as the file has, not for `most`.
  std::string text;
  std::array<char, 16384> part;
  while (file && text.size() < most) {
    file.read(part.data(), static_cast<std::streamsize>(std::min(part.size(), most - text.size())));
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  return text;
}

}  // namespace swiftkv
