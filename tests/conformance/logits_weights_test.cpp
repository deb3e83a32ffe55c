// SPDX-License-Identifier: Apache-2.0
// Compares our logits with libllama's for quantised weights, tied outputs and split files.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "model/linear_backend.h"
#include "support/conformance_bounds.h"
#include "support/llama_oracle.h"
#include "support/paged_model.h"
#include "support/sanitizers.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

constexpr int kPositions = 200;

// Rows of 256, which Q4_K needs.
TinyModel WideModel(TinyFamily family, bool tied) {
  TinyModel model;
  model.name = std::string(TinyFamilyName(family)) + (tied ? "_tied" : "_untied");
  model.family = family;
  model.shape = {.layers = 2,
                 .embedding = 256,
                 .feed_forward = 512,
                 .query_heads = 4,
                 .kv_heads = 2,
                 .head_dim = 64,
                 .tied_output = tied};
  if (family == TinyFamily::kGemma3) model.shape.layers = 7;
  model.seed = 42;
  return model;
}

const char* WeightsName(OracleWeights weights) {
  switch (weights) {
    case OracleWeights::kF32:
      return "f32";
    case OracleWeights::kF16:
      return "f16";
    case OracleWeights::kQ8_0:
      return "q8_0";
    case OracleWeights::kQ4_1:
      return "q4_1";
    case OracleWeights::kQ4_K:
      return "q4_k";
  }
  return "unknown";
}

using WeightsCase = std::tuple<TinyFamily, bool, OracleWeights>;

class WeightsTest : public testing::TestWithParam<WeightsCase> {};

// These products round the activations to the weights' format, so a difference in a last bit can
// grow to a step of that format. The measure is therefore libllama itself: its two attention
// kernels, at the same F32 cache, differ by a mean KLD of 2e-8 with F16 weights and 1e-5 to 1e-4
// with 4 bits.
TEST_P(WeightsTest, DistributionsAreNoFurtherFromLibllamaThanItIsFromItself) {
  const auto [family, tied, weights] = GetParam();
  const TempDirectory directory;
  Result<std::string> exact = WriteTinyGguf(WideModel(family, tied), directory.path());
  ASSERT_TRUE(exact.ok()) << exact.status().message();
  const std::string path = directory.FilePath("rewritten.gguf");
  const Status rewritten = RewriteWeights(*exact, path, weights);
  ASSERT_TRUE(rewritten.ok()) << rewritten.message();
  const auto tokens = RandomTokens(kPositions, 256, 9);
  auto oracle = LlamaOracle::Load(path, {});
  ASSERT_TRUE(oracle.ok()) << oracle.status().message();
  auto flash = LlamaOracle::Load(path, {.flash_attention = true});
  ASSERT_TRUE(flash.ok()) << flash.status().message();
  auto paged = PagedModel::Load(path, {});
  ASSERT_TRUE(paged.ok()) << paged.status().message();
  const Result<Logits> expected = (*oracle)->Append(tokens);
  const Result<Logits> ours = (*paged)->Append(tokens);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  const Result<Logits> other = (*flash)->Append(tokens);
  ASSERT_TRUE(other.ok()) << other.status().message();
  DivergenceSummary summary;
  DivergenceSummary floor;  // libllama with flash attention against libllama without
  for (int row = 0; row < kPositions; ++row) {
    summary.Add(expected->Row(row), ours->Row(row));
    floor.Add(expected->Row(row), other->Row(row));
  }
  RecordProperty("mean_kld", std::to_string(summary.MeanKld()));
  EXPECT_LE(summary.MeanKld(), 1.5 * floor.MeanKld() + 1e-8);
  EXPECT_GE(summary.SameTop1(), floor.SameTop1() - 0.02);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, WeightsTest,
    testing::Combine(testing::Values(TinyFamily::kLlama, TinyFamily::kQwen2, TinyFamily::kGemma3),
                     testing::Bool(),
                     testing::Values(OracleWeights::kF16, OracleWeights::kQ8_0,
                                     OracleWeights::kQ4_1, OracleWeights::kQ4_K)),
    [](const auto& row) {
      return std::string(TinyFamilyName(std::get<0>(row.param))) +
             (std::get<1>(row.param) ? "_tied_" : "_untied_") + WeightsName(std::get<2>(row.param));
    });

std::vector<std::string> LinearNames() {
  std::vector<std::string> names;
  for (const LinearBackendRow& row : AllLinearBackends()) names.emplace_back(row.name);
  return names;
}

bool RoundsFloats(const std::string& linear) {
  return std::ranges::any_of(AllLinearBackends(), [&](const LinearBackendRow& row) {
    return linear == row.name && RoundsFloats(row);
  });
}

using LinearCase = std::tuple<TinyFamily, OracleWeights, std::string>;

class LinearWeightsTest : public testing::TestWithParam<LinearCase> {};

// Every backend of linear layers multiplies by the same quantised weights; what they lose is in the
// activations. The truth is libllama with the weights written out as f32, and the measure what it
// loses itself when it multiplies by the quantised ones.
TEST_P(LinearWeightsTest, LosesNoMoreInItsProductsThanLibllama) {
  const auto [family, weights, linear] = GetParam();
  const TempDirectory directory;
  Result<std::string> exact = WriteTinyGguf(WideModel(family, false), directory.path());
  ASSERT_TRUE(exact.ok()) << exact.status().message();
  const std::string path = directory.FilePath("rewritten.gguf");
  ASSERT_TRUE(RewriteWeights(*exact, path, weights).ok());
  const std::string floats = directory.FilePath("floats.gguf");
  ASSERT_TRUE(RewriteWeights(path, floats, OracleWeights::kF32).ok());
  const auto tokens = RandomTokens(kPositions, 256, 10);
  auto truth = LlamaOracle::Load(floats, {});
  ASSERT_TRUE(truth.ok()) << truth.status().message();
  auto oracle = LlamaOracle::Load(path, {});
  ASSERT_TRUE(oracle.ok()) << oracle.status().message();
  const Result<Logits> expected = (*truth)->Append(tokens);
  const Result<Logits> theirs = (*oracle)->Append(tokens);
  ASSERT_TRUE(expected.ok() && theirs.ok());
  PagedModelOptions options;
  options.linear = linear;
  auto paged = PagedModel::Load(path, options);
  ASSERT_TRUE(paged.ok()) << paged.status().message();
  for (const int chunk : {kPositions, 1, 3, 17}) {
    ASSERT_TRUE((*paged)->Clear().ok());
    const Result<Logits> ours = AppendInChunks(paged->get(), tokens, chunk);
    ASSERT_TRUE(ours.ok()) << ours.status().message();
    DivergenceSummary summary;
    DivergenceSummary floor;
    for (int row = 0; row < kPositions; ++row) {
      summary.Add(expected->Row(row), ours->Row(row));
      floor.Add(expected->Row(row), theirs->Row(row));
    }
    RecordProperty("mean_kld_" + std::to_string(chunk), std::to_string(summary.MeanKld()));
    const double rounding = RoundsFloats(linear) ? kBf16Kld : 1e-8;
    EXPECT_LE(summary.MeanKld(), 1.2 * floor.MeanKld() + rounding) << "chunk " << chunk;
  }
}

// More step lengths than a model keeps graphs for, so that new graphs come to lie where old ones
// lay.
TEST(LinearGraphsTest, StepsOfEveryLengthComputeAlikeWhateverCameBefore) {
  const TempDirectory directory;
  Result<std::string> exact = WriteTinyGguf(WideModel(TinyFamily::kGemma3, true), directory.path());
  const std::string path = directory.FilePath("rewritten.gguf");
  ASSERT_TRUE(exact.ok() && RewriteWeights(*exact, path, OracleWeights::kQ4_1).ok());
  const auto tokens = RandomTokens(60, 256, 12);
  for (const std::string& linear : LinearNames()) {
    PagedModelOptions options;
    options.linear = linear;
    auto paged = PagedModel::Load(path, options);
    ASSERT_TRUE(paged.ok()) << paged.status().message();
    const Result<Logits> expected = AppendInChunks(paged->get(), tokens, 60);
    ASSERT_TRUE(expected.ok());
    for (int chunk = 2; chunk < 50; chunk += kSanitized ? 12 : 2) {
      ASSERT_TRUE((*paged)->Clear().ok());
      const Result<Logits> ours = AppendInChunks(paged->get(), tokens, chunk);
      ASSERT_TRUE(ours.ok()) << ours.status().message();
      DivergenceSummary summary;
      summary.AddRows(*expected, *ours);
      EXPECT_LE(summary.MeanKld(), RoundsFloats(linear) ? kBf16Kld : 1e-4)
          << linear << ", chunk " << chunk;
    }
  }
}

TEST(PackedWeightsTest, ComputeWhatUnpackingInEveryStepDoes) {
  const TempDirectory directory;
  Result<std::string> path = WriteTinyGguf(TinyModelNamed("llama_gqa3_d64"), directory.path());
  ASSERT_TRUE(path.ok());
  const auto tokens = RandomTokens(70, 256, 11);
  PagedModelOptions options;
  options.linear = "onednn";
  auto unpacking = PagedModel::Load(*path, options);
  options.packed_weights = "auto";
  auto packed = PagedModel::Load(*path, options);
  ASSERT_TRUE(unpacking.ok() && packed.ok()) << packed.status().message();
  EXPECT_EQ((*unpacking)->model().memory().packed_weights_bytes, 0U);
  EXPECT_GT((*packed)->model().memory().packed_weights_bytes, 0U);
  EXPECT_EQ((*unpacking)->Append(tokens)->values, (*packed)->Append(tokens)->values);
}

INSTANTIATE_TEST_SUITE_P(
    Backends, LinearWeightsTest,
    testing::Combine(testing::Values(TinyFamily::kLlama, TinyFamily::kQwen2, TinyFamily::kGemma3),
                     testing::Values(OracleWeights::kF16, OracleWeights::kQ8_0,
                                     OracleWeights::kQ4_1, OracleWeights::kQ4_K),
                     testing::ValuesIn(LinearNames())),
    [](const auto& row) {
      return std::string(TinyFamilyName(std::get<0>(row.param))) + "_" +
             WeightsName(std::get<1>(row.param)) + "_" + std::get<2>(row.param);
    });

TEST(SplitModelTest, ShardsComputeWhatTheWholeFileDoes) {
  const TempDirectory directory;
  const TinyModel& model = TinyModelNamed("qwen3_d128");
  const auto tokens = RandomTokens(64, model.shape.vocabulary, 5);
  Result<std::string> whole = WriteTinyGguf(model, directory.path());
  Result<std::vector<std::string>> parts = WriteTinySplit(model, 3, directory.path());
  ASSERT_TRUE(whole.ok() && parts.ok());
  auto one = PagedModel::Load(*whole, {});
  auto three = PagedModel::Load(parts->front(), {});
  ASSERT_TRUE(one.ok()) << one.status().message();
  ASSERT_TRUE(three.ok()) << three.status().message();
  EXPECT_EQ((*one)->Append(tokens)->values, (*three)->Append(tokens)->values);
}

}  // namespace
}  // namespace swiftkv
