// SPDX-License-Identifier: Apache-2.0
// Replaces every number and every type of honest GGUF files by odd ones: no file may fault or
// compute nonsense.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/fuzz_seeds.h"
#include "support/model_trial.h"
#include "support/raw_gguf.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

constexpr std::array<uint32_t, 12> kOddCounts = {
    0, 1, 2, 3, 7, 17, 1000, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFF00, 0xFFFFFFFF};

const std::vector<float>& OddNumbers() {
  static const std::vector<float> numbers = {0.0F,
                                             -0.0F,
                                             -1.0F,
                                             1e-38F,
                                             1e-9F,
                                             0.5F,
                                             1e9F,
                                             3e38F,
                                             std::numeric_limits<float>::infinity(),
                                             -std::numeric_limits<float>::infinity(),
                                             std::numeric_limits<float>::quiet_NaN(),
                                             std::numeric_limits<float>::denorm_min()};
  return numbers;
}

class GgufSweepTest : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override { honest_ = MakeTinyGguf(GetParam()); }

  // An error is one printable line that does not blame us. Success has finite logits, except where
  // the file's bytes were made to mean other weights, which may be NaN themselves.
  static void Try(const RawGguf& gguf, const std::string& what, bool weights_differ = false) {
    const Status status = TryModelBytes(SerializeGguf(gguf));
    if (status.ok()) return;
    EXPECT_TRUE(weights_differ || status.code() != StatusCode::kInternal)
        << what << ": " << status.message();
    EXPECT_FALSE(status.message().empty()) << what;
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << what << ": " << status.message();
  }

  RawGguf honest_;
};

TEST_P(GgufSweepTest, OddCountsAreRefusedOrCompute) {
  for (size_t key = 0; key < honest_.keys.size(); ++key) {
    if (honest_.keys[key].type != kGgufU32) continue;
    for (const uint32_t value : kOddCounts) {
      RawGguf odd = honest_;
      odd.keys[key].payload = GgufBytes(value);
      Try(odd, odd.keys[key].name + " = " + std::to_string(value));
    }
  }
}

TEST_P(GgufSweepTest, OddNumbersAreRefusedOrCompute) {
  for (size_t key = 0; key < honest_.keys.size(); ++key) {
    if (honest_.keys[key].type != kGgufF32) continue;
    for (const float value : OddNumbers()) {
      RawGguf odd = honest_;
      odd.keys[key].payload = GgufBytes(std::vector<float>{value});
      Try(odd, odd.keys[key].name + " = " + std::to_string(value));
    }
  }
}

// The payload stays, so that its bytes are read as something else, or as the wrong number of bytes.
TEST_P(GgufSweepTest, KeysOfAnotherTypeAreRefusedOrCompute) {
  for (size_t key = 0; key < honest_.keys.size(); ++key) {
    for (uint32_t type = 0; type <= 13; ++type) {
      RawGguf odd = honest_;
      odd.keys[key].type = type;
      Try(odd, odd.keys[key].name + " as type " + std::to_string(type));
    }
  }
}

TEST_P(GgufSweepTest, MissingKeysAreRefusedOrCompute) {
  for (const RawGgufKey& key : honest_.keys) {
    RawGguf odd = honest_;
    odd.RemoveKey(key.name);
    Try(odd, "without " + key.name);
  }
}

TEST_P(GgufSweepTest, TensorsOfAnotherTypeAreRefusedOrCompute) {
  for (size_t tensor = 0; tensor < honest_.tensors.size(); ++tensor) {
    for (uint32_t type = 0; type < 48; ++type) {
      RawGguf odd = honest_;
      odd.tensors[tensor].type = type;
      Try(odd, odd.tensors[tensor].name + " as type " + std::to_string(type),
          /*weights_differ=*/true);
    }
  }
}

TEST_P(GgufSweepTest, TensorsOfAnotherShapeAreRefusedOrCompute) {
  for (size_t tensor = 0; tensor < honest_.tensors.size(); ++tensor) {
    const std::vector<uint64_t> shape = honest_.tensors[tensor].shape;
    uint64_t elements = 1;
    for (const uint64_t extent : shape) elements *= extent;
    // The same bytes in other shapes, then shapes that the bytes do not fill.
    const std::vector<std::vector<uint64_t>> shapes = {
        {elements}, {1, elements}, {elements, 1, 1, 1}, {2, elements / 2}, {elements / 2, 2},
        {},         {0},           {elements, 0},       {elements * 2},    {uint64_t{1} << 62U, 4}};
    for (const std::vector<uint64_t>& other : shapes) {
      if (other == shape) continue;
      RawGguf odd = honest_;
      odd.tensors[tensor].shape = other;
      Try(odd, odd.tensors[tensor].name);
    }
  }
}

TEST_P(GgufSweepTest, MissingTensorsAreRefusedOrCompute) {
  for (const RawGgufTensor& tensor : honest_.tensors) {
    RawGguf odd = honest_;
    odd.RemoveTensor(tensor.name);
    Try(odd, "without " + tensor.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GgufSweepTest, testing::ValuesIn(GgufFuzzSeeds()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace swiftkv
