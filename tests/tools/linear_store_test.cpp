// SPDX-License-Identifier: Apache-2.0
// Tests where measured choices of linear backends are kept, and that whoever does not measure
// leaves them alone.
#include "tools/linear_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "tools/kept_file.h"

namespace swiftkv {
namespace {

class LinearStoreTest : public testing::Test {
 protected:
  Status Load(const std::string& linear, bool precise = false) {
    ModelOptions options;
    options.path = *model_;
    options.linear = linear;
    options.precise = precise;
    options.linear_memo = LinearMemoIn(folder_);
    return LanguageModel::Load(options, nullptr).status();
  }

  // The only file in the folder.
  std::string KeptPath() const {
    std::string path;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      EXPECT_TRUE(path.empty()) << path << " and " << entry.path();
      path = entry.path().string();
    }
    return path;
  }
  std::string Kept() const { return ReadFileUpTo(KeptPath(), 1 << 16).value_or(""); }

  TempDirectory directory_;
  std::string folder_ = directory_.FilePath("linear");
  Result<std::string> model_ = WriteTinyGguf(TinyModelNamed("llama_gqa3_d64"), directory_.path());
};

TEST_F(LinearStoreTest, WhatWasMeasuredIsTakenAtTheNextLoad) {
  ASSERT_TRUE(Load("auto").ok());
  const std::string measured = Kept();
  EXPECT_NE(measured.find("f32 "), std::string::npos) << measured;
  // Times differ from load to load, so equal text was not measured again.
  ASSERT_TRUE(Load("auto").ok());
  EXPECT_EQ(Kept(), measured);
}

TEST_F(LinearStoreTest, LoadsThatMeasureNothingLeaveItAlone) {
  ASSERT_TRUE(Load("auto").ok());
  const std::string measured = Kept();
  ASSERT_TRUE(Load("ggml").ok());
  ASSERT_TRUE(Load("onednn").ok());
  ASSERT_TRUE(Load("auto", /*precise=*/true).ok());
  EXPECT_EQ(Kept(), measured);
}

TEST_F(LinearStoreTest, DamagedTextIsMeasuredAnew) {
  ASSERT_TRUE(Load("auto").ok());
  for (const std::string damaged : {"", "f32", "f32 64 64 ggml\n", "\xFF\xFE"}) {
    ASSERT_TRUE(ReplaceFile(KeptPath(), damaged).ok());
    ASSERT_TRUE(Load("auto").ok());
    EXPECT_NE(Kept(), damaged);
  }
}

TEST_F(LinearStoreTest, AFolderThatCannotBeWrittenIsNoError) {
  folder_ = "/proc/nowhere";
  EXPECT_TRUE(Load("auto").ok());
  EXPECT_EQ(LinearMemoIn("").keep, nullptr);
}

TEST(KeptFileTest, AReplacedFileIsWholeAndLeavesNothingBeside) {
  const TempDirectory directory;
  const std::string path = directory.FilePath("folder/file");
  ASSERT_TRUE(ReplaceFile(path, "first, and longer").ok());
  ASSERT_TRUE(ReplaceFile(path, "second").ok());
  EXPECT_EQ(ReadFileUpTo(path, 100), "second");
  EXPECT_EQ(ReadFileUpTo(path, 3), "sec");
  EXPECT_EQ(ReadFileUpTo(path + "x", 3), std::nullopt);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.FilePath("folder"))) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 1);
  const Status refused = ReplaceFile("/proc/nowhere/file", "text");
  EXPECT_EQ(refused.code(), StatusCode::kInternal);
  EXPECT_NE(refused.message().find("/proc/nowhere/file"), std::string::npos);
}

}  // namespace
}  // namespace swiftkv
