// SPDX-License-Identifier: Apache-2.0
// Tests how linear backends are chosen, what is kept of a choice, and packing of weights.
#include "model/linear_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/half.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "model/packed_weights.h"
#include "model/weight_panel.h"

namespace swiftkv {
namespace {

// Matrices of random weights in ordinary memory.
class LinearChoiceTest : public testing::Test {
 protected:
  LinearChoiceTest() : context_(ggml_init({1 << 16, nullptr, /*no_alloc=*/true})) {}

  const ggml_tensor* Add(ggml_type type, std::int64_t inputs, std::int64_t outputs) {
    ggml_tensor* matrix = ggml_new_tensor_2d(context_.get(), type, inputs, outputs);
    matrices_.push_back(matrix);
    return matrix;
  }

  void Allocate() {
    buffer_.reset(
        ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), ggml_backend_cpu_buffer_type()));
    for (const ggml_tensor* matrix : matrices_) {
      std::vector<float> values(static_cast<std::size_t>(ggml_nelements(matrix)));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i * 29 % 113) / 50.0F - 1.1F;
      }
      ggml_quantize_chunk(matrix->type, values.data(), matrix->data, 0, matrix->ne[1],
                          matrix->ne[0], nullptr);
    }
  }

  LinearChoice Make(std::string_view mode) {
    Result<LinearChoice> choice = LinearChoice::Create(mode);
    EXPECT_TRUE(choice.ok()) << choice.status().message();
    return std::move(*choice);
  }

  ggml_context_ptr context_;
  ggml_backend_buffer_ptr buffer_;
  std::vector<const ggml_tensor*> matrices_;
};

TEST_F(LinearChoiceTest, UnknownBackendsAreRefusedWithTheListOfThem) {
  const Result<LinearChoice> choice = LinearChoice::Create("blas");
  EXPECT_EQ(choice.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(choice.status().message().find("auto, ggml, bytes, onednn, not blas"),
            std::string::npos)
      << choice.status().message();
}

TEST_F(LinearChoiceTest, AForcedBackendTakesWhatItServesAndGgmlTheRest) {
  const ggml_tensor* floats = Add(GGML_TYPE_F32, 64, 32);
  const ggml_tensor* few_bits = Add(GGML_TYPE_Q4_1, 64, 32);
  Allocate();
  EXPECT_EQ(Make("ggml").Find(*floats, 512), nullptr);
  EXPECT_EQ(LinearChoice().Find(*floats, 512), nullptr);
  const LinearChoice onednn = Make("onednn");
  EXPECT_NE(onednn.Find(*floats, 512), nullptr);
  EXPECT_EQ(onednn.Find(*floats, 512), onednn.Find(*few_bits, 1));
  EXPECT_EQ(Make("bytes").Find(*floats, 512), nullptr);
}

TEST_F(LinearChoiceTest, MeasuredChoicesComeBackFromTheirText) {
  Add(GGML_TYPE_F32, 64, 32);
  Add(GGML_TYPE_Q4_1, 64, 32);
  Add(GGML_TYPE_Q4_1, 96, 48);
  Allocate();
  LinearChoice measured = Make("auto");
  EXPECT_EQ(measured.SecondsPerRow(matrices_), 0);
  measured.Measure(matrices_, 1);
  EXPECT_GT(measured.SecondsPerRow(matrices_), 0);
  LinearChoice recalled = Make("auto");
  ASSERT_TRUE(recalled.Parse(measured.Text(), matrices_));
  EXPECT_EQ(recalled.Text(), measured.Text());
}

TEST_F(LinearChoiceTest, TextsThatDoNotCoverTheWeightsAreNotTaken) {
  Add(GGML_TYPE_F32, 64, 32);
  Add(GGML_TYPE_Q4_1, 64, 32);
  Allocate();
  LinearChoice measured = Make("auto");
  measured.Measure(matrices_, 1);
  const std::string text = measured.Text();
  for (std::size_t cut = 0; cut + 16 < text.size(); cut += 5) {
    EXPECT_FALSE(Make("auto").Parse(text.substr(0, cut), matrices_)) << text.substr(0, cut);
  }
  EXPECT_FALSE(Make("auto").Parse(text + "f32 65 32 ggml ggml ggml ggml 1e-6\n", matrices_));
  EXPECT_FALSE(Make("auto").Parse("f32 64 32 ggml ggml ggml ggml -1\n", matrices_));
  EXPECT_FALSE(Make("auto").Parse("f32 64 32 ggml ggml blas ggml 1e-6\n", matrices_));
}

TEST_F(LinearChoiceTest, PackingStaysWithinItsLimitAndIsFoundAgain) {
  const ggml_tensor* first = Add(GGML_TYPE_Q4_1, 256, 128);
  const ggml_tensor* second = Add(GGML_TYPE_Q4_1, 256, 128);
  Allocate();
  const LinearChoice choice = Make("onednn");
  const LinearBackend* backend = choice.Find(*first, 64);
  const std::uint64_t one = backend->PackedBytes({GGML_TYPE_Q4_1, 256, 128});
  EXPECT_GE(one, 256U * 128U * 2U);
  PackedWeights none;
  ASSERT_TRUE(none.Pack(matrices_, choice, {}).ok());
  EXPECT_EQ(none.bytes(), 0U);
  PackedWeights packed;
  ASSERT_TRUE(packed.Pack(matrices_, choice, {.bytes = one + one / 2}).ok());
  EXPECT_EQ(packed.bytes(), one);
  EXPECT_NE(packed.Find(first, backend), nullptr);
  EXPECT_EQ(packed.Find(second, backend), nullptr);
  EXPECT_EQ(packed.Find(first, nullptr), nullptr);
  PackedWeights all;
  ASSERT_TRUE(all.Pack(matrices_, choice, {.automatic = true}).ok());
  EXPECT_EQ(all.bytes(), 2 * one);
}

TEST_F(LinearChoiceTest, LimitsOfPackedWeightsAreReadAsPeopleWriteThem) {
  EXPECT_EQ(ParsePackedLimit("off")->bytes, 0U);
  EXPECT_TRUE(ParsePackedLimit("auto")->automatic);
  EXPECT_EQ(ParsePackedLimit("2MiB")->bytes, 2U << 20U);
  EXPECT_FALSE(ParsePackedLimit("2 bananas").ok());
}

// Rows and columns that fill neither a block of four nor a stretch.
TEST_F(LinearChoiceTest, PanelsHoldTheWeightsTransposed) {
  const ggml_tensor* matrix = Add(GGML_TYPE_F32, 523, 39);
  Allocate();
  const auto* values = static_cast<const float*>(matrix->data);
  std::vector<float> panel(523 * 21);
  UnpackPanel({GGML_TYPE_F32, matrix->data, 523, 18, 21}, panel.data());
  std::vector<std::uint16_t> rounded(panel.size());
  UnpackPanelBf16({GGML_TYPE_F32, matrix->data, 523, 18, 21}, rounded.data());
  for (std::size_t input = 0; input < 523; ++input) {
    for (std::size_t output = 0; output < 21; ++output) {
      const float weight = values[(output + 18) * 523 + input];
      ASSERT_EQ(panel[input * 21 + output], weight) << input << ", " << output;
      ASSERT_EQ(rounded[input * 21 + output], FloatToBf16(weight)) << input << ", " << output;
    }
  }
}

}  // namespace
}  // namespace swiftkv
