// SPDX-License-Identifier: Apache-2.0
// Checks that the table of hostile files is sound: its originals load, and every file differs from
// them.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "support/hostile_gguf.h"
#include "support/llama_oracle.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

// Were the originals broken, every file made from them would be refused for the wrong reason.
TEST(HostileFilesTest, TheirHonestOriginalsLoadInLibllama) {
  const TempDirectory directory;
  for (const TinyModel& model : {HonestModel(), HonestModelWithText()}) {
    Result<std::string> path = WriteTinyGguf(model, directory.path());
    ASSERT_TRUE(path.ok()) << path.status().message();
    auto oracle = LlamaOracle::Load(*path, {.context = 256, .max_chunk = 64});
    ASSERT_TRUE(oracle.ok()) << oracle.status().message();
    EXPECT_TRUE((*oracle)->Append(RandomTokens(20, 32, 3)).ok());
  }
}

TEST(HostileFilesTest, NamesAreDistinctAndFilesDifferFromTheirOriginals) {
  const std::string honest = SerializeGguf(MakeTinyGguf(HonestModel()));
  const std::string honest_text = SerializeGguf(MakeTinyGguf(HonestModelWithText()));
  std::set<std::string> names;
  std::set<std::string> contents;
  for (const HostileGguf& file : HostileGgufs()) {
    EXPECT_TRUE(names.insert(file.name).second) << file.name;
    EXPECT_TRUE(contents.insert(file.bytes).second) << file.name << " repeats another file";
    EXPECT_NE(file.bytes, honest) << file.name;
    EXPECT_NE(file.bytes, honest_text) << file.name;
  }
  EXPECT_GT(names.size(), 120U);
}

}  // namespace
}  // namespace swiftkv
