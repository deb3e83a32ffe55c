// SPDX-License-Identifier: Apache-2.0
// Tests how keys are read from a file.
#include "tools/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_directory.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

using testing::ElementsAre;
using testing::EndsWith;

class KeyFileTest : public testing::Test {
 protected:
  Status Append(const std::string& text) {
    EXPECT_TRUE(WriteBytes(path_, text).ok());
    return AppendKeysOfFile(path_, &keys_);
  }

  TempDirectory directory_;
  std::string path_ = directory_.FilePath("keys");
  std::vector<std::string> keys_ = {"given"};
};

TEST_F(KeyFileTest, EachLineIsAKeyWithoutTheBlanksAroundIt) {
  EXPECT_TRUE(Append("first\n\n  second key\t\r\n# a note\n#\nthird").ok());
  EXPECT_THAT(keys_, ElementsAre("given", "first", "second key", "third"));
}

TEST_F(KeyFileTest, AFileWithoutKeysLetsNobodyIn) {
  for (const char* text : {"", "\n\n", "# only a note\n", " \t\r\n"}) {
    const Status status = Append(text);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), EndsWith(path_));
  }
}

TEST_F(KeyFileTest, WhatIsNoFileOrTooLargeForOneIsRefused) {
  EXPECT_EQ(AppendKeysOfFile(directory_.FilePath("none"), &keys_).code(), StatusCode::kNotFound);
  EXPECT_EQ(AppendKeysOfFile(directory_.path().string(), &keys_).code(), StatusCode::kNotFound);
  EXPECT_EQ(Append(std::string(2 << 20, 'k')).code(), StatusCode::kInvalidArgument);
}

TEST_F(KeyFileTest, NoFileIsNoKey) {
  EXPECT_TRUE(AppendKeysOfFile("", &keys_).ok());
  EXPECT_THAT(keys_, ElementsAre("given"));
}

}  // namespace
}  // namespace swiftkv
