// SPDX-License-Identifier: Apache-2.0
// Keeps the committed seeds of the GGUF fuzzer equal to what the tiny models' writer makes.
#include "support/fuzz_seeds.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/model_trial.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

std::string FileBytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(FuzzSeedsTest, LoadAndCompute) {
  for (const TinyModel& seed : GgufFuzzSeeds()) {
    const Status status = TryModelBytes(SerializeGguf(MakeTinyGguf(seed)));
    EXPECT_TRUE(status.ok()) << seed.name << ": " << status.message();
  }
}

TEST(FuzzSeedsTest, AreCommittedAsTheyAreMade) {
  const std::filesystem::path made = std::filesystem::path(SWIFTKV_BINARY_DIR) / "fuzz-seeds";
  const std::filesystem::path committed =
      std::filesystem::path(SWIFTKV_SOURCE_DIR) / "tests/fuzz/corpus/gguf";
  std::filesystem::create_directories(made);
  for (const TinyModel& seed : GgufFuzzSeeds()) {
    const std::string& file = seed.name;
    const std::string bytes = SerializeGguf(MakeTinyGguf(seed));
    ASSERT_TRUE(WriteBytes(made / file, bytes).ok());
    EXPECT_TRUE(FileBytes(committed / file) == bytes)
        << file << " is out of date; copy it from " << made << " to " << committed;
  }
}

}  // namespace
}  // namespace swiftkv
