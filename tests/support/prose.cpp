// SPDX-License-Identifier: Apache-2.0
// Unpacks the text of Debian's debian-policy package.
#include "support/prose.h"

#include <array>
#include <cstdio>
#include <filesystem>

namespace swiftkv {
namespace {

constexpr const char* kPolicyText = "/usr/share/doc/debian-policy/policy.txt";

Result<std::string> ReadPipe(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return Status::Internal("cannot run " + command);
  std::string text;
  std::array<char, 65536> buffer{};
  for (size_t got = 1; got > 0;) {
    got = std::fread(buffer.data(), 1, buffer.size(), pipe);
    text.append(buffer.data(), got);
  }
  if (pclose(pipe) != 0) return Status::Internal("failed: " + command);
  return text;
}

}  // namespace

Result<std::string> PolicyProse(size_t begin, size_t end) {
  const std::string packed = std::string(kPolicyText) + ".gz";
  std::string command;
  if (std::filesystem::exists(packed)) {
    command = "gzip -dc " + packed;
  } else if (std::filesystem::exists(kPolicyText)) {
    command = std::string("cat ") + kPolicyText;
  } else {
    return Status::NotFound(
        "the prose for quality tests is missing; install Debian's package debian-policy (" +
        packed + ")");
  }
  Result<std::string> text = ReadPipe(command);
  if (!text.ok()) return text;
  if (text->size() < end) {
    return Status::NotFound("policy.txt is shorter than the excerpt, which ends at byte " +
                            std::to_string(end));
  }
  return text->substr(begin, end - begin);
}

}  // namespace swiftkv
