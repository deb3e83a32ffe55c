// SPDX-License-Identifier: Apache-2.0
// Opens damaged and hostile GGUF files: each is refused with a sentence that names what is wrong,
// or computes.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

#include "support/hostile_gguf.h"
#include "support/model_trial.h"
#include "support/sanitizers.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

bool Mentions(std::string message, std::string word) {
  const auto lower = [](unsigned char c) { return static_cast<char>(std::tolower(c)); };
  std::transform(message.begin(), message.end(), message.begin(), lower);
  std::transform(word.begin(), word.end(), word.begin(), lower);
  return message.find(word) != std::string::npos;
}

bool IsOnePrintableLine(const std::string& message) {
  return !message.empty() && std::none_of(message.begin(), message.end(),
                                          [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

class HostileGgufTest : public testing::TestWithParam<HostileGguf> {};

TEST_P(HostileGgufTest, IsRefusedByNameOrComputes) {
  const HostileGguf& file = GetParam();
  const Status status = TryModelBytes(file.bytes);
  if (file.verdict == HostileVerdict::kMustFail) {
    ASSERT_FALSE(status.ok());
    EXPECT_TRUE(Mentions(status.message(), file.names)) << status.message();
  }
  if (!status.ok()) {
    EXPECT_TRUE(IsOnePrintableLine(status.message())) << status.message();
    // What a file can cause is never our own fault, nor a lack of memory.
    EXPECT_NE(status.code(), StatusCode::kInternal) << status.message();
    EXPECT_NE(status.code(), StatusCode::kResourceExhausted) << status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Table, HostileGgufTest, testing::ValuesIn(HostileGgufs()),
                         [](const auto& row) { return row.param.name; });

// Counts and lengths are believed only as far as the file could hold them.
TEST(HostileGgufDeathTest, TheWholeTableIsReadWithinOneGigabyte) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer reserves more address space than the limit";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto read_all = [] {
    const rlimit limit = {rlim_t{1} << 30U, rlim_t{1} << 30U};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(2);
    for (const HostileGguf& file : HostileGgufs()) {
      const Status status = TryModelBytes(file.bytes);
      if (file.verdict == HostileVerdict::kMustFail && status.ok()) std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(read_all(), testing::ExitedWithCode(0), "");
}

TEST(TruncatedGgufTest, EveryPrefixOfTheMetadataIsRefused) {
  const std::string whole = SerializeGguf(MakeTinyGguf(HonestModelWithText()));
  const std::size_t data = whole.size() - SerializeGguf(MakeTinyGguf(HonestModel())).size() / 2;
  for (std::size_t size = 0; size < data; size += 97) {
    EXPECT_FALSE(TryModelBytes(whole.substr(0, size)).ok()) << size << " bytes";
  }
}

TEST(TruncatedGgufTest, CutTensorDataIsRefusedByTheNameOfTheTensor) {
  const std::string whole = SerializeGguf(MakeTinyGguf(HonestModel()));
  const Status status = TryModelBytes(whole.substr(0, whole.size() - 64));
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(Mentions(status.message(), "blk.0.ffn_down.weight")) << status.message();
}

TEST(MissingShardTest, IsRefusedByItsName) {
  const TempDirectory directory;
  Result<std::vector<std::string>> parts = WriteTinySplit(HonestModel(), 3, directory.path());
  ASSERT_TRUE(parts.ok());
  ASSERT_TRUE(TryModelFile(parts->at(0)).ok()) << TryModelFile(parts->at(0)).message();
  std::filesystem::remove(parts->at(1));
  const Status status = TryModelFile(parts->at(0));
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(Mentions(status.message(), "00002-of-00003")) << status.message();
  EXPECT_FALSE(TryModelFile(parts->at(2)).ok()) << "a shard that is not the first is no model";
}

TEST(HonestGgufTest, BothOriginalsOfTheTableLoadAndCompute) {
  for (const TinyModel& model : {HonestModel(), HonestModelWithText()}) {
    const Status status = TryModelBytes(SerializeGguf(MakeTinyGguf(model)));
    EXPECT_TRUE(status.ok()) << model.name << ": " << status.message();
  }
}

}  // namespace
}  // namespace swiftkv
