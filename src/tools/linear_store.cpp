// SPDX-License-Identifier: Apache-2.0
// Implements the memo of linear choices over files.
#include "tools/linear_store.h"

#include "tools/kept_file.h"
#include "tools/model_path.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMostBytes = 1 << 16;  // a line for each shape of a model

}  // namespace

LinearMemo LinearMemoIn(const std::string& folder) {
  if (folder.empty()) return {};
  LinearMemo memo;
  memo.recall = [folder](const std::string& key) {
    return ReadFileUpTo(folder + "/" + key + ".txt", kMostBytes).value_or("");
  };
  memo.keep = [folder](const std::string& key, const std::string& text) {
    // A folder that nobody may write to is no reason to fail.
    (void)ReplaceFile(folder + "/" + key + ".txt", text);
  };
  return memo;
}

LinearMemo ProcessLinearMemo() {
  const std::string cache = CacheDirectory(ProcessEnvironment());
  return LinearMemoIn(cache.empty() ? "" : cache + "/linear");
}

}  // namespace swiftkv
