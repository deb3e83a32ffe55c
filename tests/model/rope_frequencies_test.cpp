// SPDX-License-Identifier: Apache-2.0
// Turns rows by the frequencies and by ggml, and expects the same rows.
#include "model/rope_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace swiftkv {
namespace {

constexpr int kDim = 40;

struct RopeCase {
  std::string name;
  RopeSpec rope;
  std::vector<float> factors;
};

std::vector<RopeCase> Cases() {
  RopeSpec plain;
  plain.dims = 32;
  plain.original_context = 4096;
  RopeSpec split = plain;
  split.layout = RopeLayout::kSplitHalf;
  split.base = 1e6F;
  RopeSpec linear = split;
  linear.scaling = RopeScaling::kLinear;
  linear.frequency_scale = 0.125F;
  RopeSpec yarn = split;
  yarn.scaling = RopeScaling::kYarn;
  yarn.extrapolation_factor = 1.0F;
  yarn.frequency_scale = 0.25F;
  yarn.base = 10000.0F;
  RopeSpec weighed_yarn = yarn;
  weighed_yarn.layout = RopeLayout::kInterleaved;
  weighed_yarn.attention_factor = 0.8F;
  weighed_yarn.beta_fast = 16.0F;
  weighed_yarn.beta_slow = 2.0F;
  weighed_yarn.original_context = 512;
  RopeSpec factored = plain;
  factored.attention_factor = 1.2F;
  std::vector<float> factors;
  for (int i = 0; i < 16; ++i) factors.push_back(1.0F + 0.5F * static_cast<float>(i));
  return {{"plain", plain, {}},
          {"split", split, {}},
          {"linear", linear, {}},
          {"yarn", yarn, {}},
          {"weighed yarn", weighed_yarn, {}},
          {"factors", factored, factors},
          {"factors under yarn", yarn, factors}};
}

std::vector<float> Row() {
  std::vector<float> row;
  for (int i = 0; i < kDim; ++i) row.push_back(std::sin(static_cast<float>(i * i + 1)));
  return row;
}

std::vector<float> TurnedByGgml(const RopeCase& tested, int position) {
  const ggml_context_ptr context(ggml_init({1 << 20, nullptr, /*no_alloc=*/false}));
  const auto floats = [&](const std::vector<float>& values) {
    ggml_tensor* tensor = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32,
                                             static_cast<std::int64_t>(values.size()), 1, 1);
    std::copy(values.begin(), values.end(), static_cast<float*>(tensor->data));
    return tensor;
  };
  ggml_tensor* where = ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, 1);
  *static_cast<std::int32_t*>(where->data) = position;
  const RopeSpec& rope = tested.rope;
  ggml_tensor* factors =
      tested.factors.empty()
          ? nullptr
          : ggml_view_1d(context.get(), floats(tested.factors), rope.dims / 2, 0);
  const int mode =
      rope.layout == RopeLayout::kSplitHalf ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
  ggml_tensor* turned = ggml_rope_ext(context.get(), floats(Row()), where, factors, rope.dims, mode,
                                      rope.original_context, rope.base, rope.frequency_scale,
                                      rope.extrapolation_factor, rope.attention_factor,
                                      rope.beta_fast, rope.beta_slow);
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, turned);
  EXPECT_EQ(ggml_graph_compute_with_ctx(context.get(), graph, 1), GGML_STATUS_SUCCESS);
  const auto* values = static_cast<const float*>(turned->data);
  return {values, values + kDim};
}

std::vector<float> TurnedByFrequencies(const RopeCase& tested, int position) {
  const RopeFrequencies rope = FrequenciesOf(tested.rope, tested.factors);
  EXPECT_EQ(rope.layout, tested.rope.layout);
  std::vector<float> row = Row();
  const std::size_t half = rope.frequencies.size();
  for (std::size_t i = 0; i < half; ++i) {
    const bool split = rope.layout == RopeLayout::kSplitHalf;
    float& low = row[split ? i : 2 * i];
    float& high = row[split ? i + half : 2 * i + 1];
    const double angle = position * static_cast<double>(rope.frequencies[i]);
    const double a = low;
    const double b = high;
    low = static_cast<float>(rope.magnitude * (a * std::cos(angle) - b * std::sin(angle)));
    high = static_cast<float>(rope.magnitude * (a * std::sin(angle) + b * std::cos(angle)));
  }
  return row;
}

TEST(RopeFrequenciesTest, RowsTurnedByThemAreThoseOfTheTensorLibrary) {
  for (const RopeCase& tested : Cases()) {
    ASSERT_EQ(FrequenciesOf(tested.rope, tested.factors).frequencies.size(), 16U);
    for (const int position : {0, 1, 7, 1000}) {
      const std::vector<float> expected = TurnedByGgml(tested, position);
      const std::vector<float> actual = TurnedByFrequencies(tested, position);
      // Angles are floats there: 1000 of them are off by some 1e-4.
      const float bound = position < 10 ? 2e-6F : 5e-4F;
      for (int i = 0; i < kDim; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_NEAR(actual[at], expected[at], bound)
            << tested.name << " at " << position << ", channel " << i;
      }
    }
  }
}

}  // namespace
}  // namespace swiftkv
