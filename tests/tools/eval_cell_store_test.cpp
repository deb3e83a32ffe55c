// SPDX-License-Identifier: Apache-2.0
// Tests that finished cells come back whole or not at all.
#include "tools/eval_cell_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/fingerprint.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

using nlohmann::json;

constexpr const char* kKey = "model 01\npolicy keydiff\n";

CellScore Example() {
  CellScore score;
  score.bytes = 123456789;
  score.bits_per_value = 8.25;
  score.kept_tokens = 90;
  score.whole_tokens = 180;
  score.continuations = {
      {{.kld = 0.1, .nll = 1.0 / 3, .same_top1 = true, .hit = false},
       {.kld = 0, .nll = std::numeric_limits<double>::infinity(), .same_top1 = false, .hit = true}},
      {{.kld = 1e-9, .nll = 2, .same_top1 = true, .hit = true}}};
  return score;
}

class EvalCellStoreTest : public testing::Test {
 protected:
  std::optional<CellScore> Load() const { return store_.Load(kKey, {2, 1}); }

  std::string ReadFile() const {
    std::ifstream file(store_.PathOf(kKey));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void ExpectNotThere(const std::string& bytes) const {
    ASSERT_TRUE(WriteBytes(store_.PathOf(kKey), bytes).ok());
    EXPECT_FALSE(Load().has_value()) << bytes.substr(0, 200);
  }

  TempDirectory directory_;
  EvalCellStore store_{directory_.FilePath("a/b")};
};

TEST_F(EvalCellStoreTest, FiguresComeBackToTheLastBit) {
  EXPECT_FALSE(Load().has_value());
  ASSERT_TRUE(store_.Save(kKey, Example()).ok());
  const std::optional<CellScore> loaded = Load();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(*loaded, Example());
}

TEST_F(EvalCellStoreTest, OtherKeysAndOtherShapesAreNotThere) {
  ASSERT_TRUE(store_.Save(kKey, Example()).ok());
  EXPECT_FALSE(store_.Load("model 02\n", {2, 1}).has_value());
  EXPECT_FALSE(store_.Load(kKey, {2}).has_value());
  EXPECT_FALSE(store_.Load(kKey, {1, 2}).has_value());
  // A file under the name of another key is that key's.
  std::filesystem::copy(store_.PathOf(kKey), store_.PathOf("model 02\n"));
  EXPECT_FALSE(store_.Load("model 02\n", {2, 1}).has_value());
}

TEST_F(EvalCellStoreTest, EveryCutEveryMissingKeyAndEveryOddValueIsNotThere) {
  ASSERT_TRUE(store_.Save(kKey, Example()).ok());
  const std::string whole = ReadFile();
  const std::size_t length = whole.find_last_of('}');
  for (std::size_t cut = 0; cut <= length; cut += 5) ExpectNotThere(whole.substr(0, cut));
  const json object = json::parse(whole);
  for (const auto& [key, value] : object.items()) {
    json lacking = object;
    lacking.erase(key);
    ExpectNotThere(lacking.dump());
    for (const json& odd : {json(-1), json("x"), json::array({1}), json::object()}) {
      lacking[key] = odd;
      ExpectNotThere(lacking.dump());
    }
  }
  for (const auto& [key, value] : object["continuations"][0].items()) {
    json lacking = object;
    lacking["continuations"][0].erase(key);
    ExpectNotThere(lacking.dump());
    lacking["continuations"][0][key] = key == "marks" ? json("49") : json::array({-1, 0});
    ExpectNotThere(lacking.dump());
  }
  ExpectNotThere(std::string(1 << 20, '['));
}

TEST_F(EvalCellStoreTest, ADamagedFileIsReplacedAndNothingElseIsLeft) {
  ASSERT_TRUE(store_.Save(kKey, Example()).ok());
  ASSERT_TRUE(WriteBytes(store_.PathOf(kKey), "{").ok());
  ASSERT_TRUE(store_.Save(kKey, Example()).ok());
  EXPECT_TRUE(Load().has_value());
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path() / "a/b")) {
    EXPECT_EQ(entry.path().string(), store_.PathOf(kKey));
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(EvalCellStoreTest, WithoutAFolderNothingIsKept) {
  const EvalCellStore nowhere("");
  EXPECT_TRUE(nowhere.Save(kKey, Example()).ok());
  EXPECT_FALSE(nowhere.Load(kKey, {2, 1}).has_value());
}

TEST(TextFingerprintTest, IsTheStandardsDigest) {
  EXPECT_EQ(TextFingerprint("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace swiftkv
