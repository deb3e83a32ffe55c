// SPDX-License-Identifier: Apache-2.0
// Owns a directory for a test's files and removes it with everything in it.
#pragma once

#include <filesystem>
#include <string>

namespace swiftkv {

class TempDirectory {
 public:
  // Makes a fresh directory under the system's place for temporary files; stops the test where it
  // cannot.
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string FilePath(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace swiftkv
