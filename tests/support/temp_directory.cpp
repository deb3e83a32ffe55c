// SPDX-License-Identifier: Apache-2.0
// Makes and removes directories of tests.
#include "support/temp_directory.h"

#include <cstdlib>
#include <system_error>

#include "base/check.h"

namespace swiftkv {

TempDirectory::TempDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "swiftkv-test-XXXXXX").string();
  SKV_CHECK(mkdtemp(pattern.data()) != nullptr, "tests can make temporary directories");
  path_ = pattern;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace swiftkv
