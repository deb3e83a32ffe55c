// SPDX-License-Identifier: Apache-2.0
// Measures how far the linear backends drift from the precise model over 2,000 positions of prose.
//
// With quantised weights the measure is libllama's distance from itself, a mean KLD of .0033
// between its two attention kernels; with F16 weights nothing hides a loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/linear_backend.h"
#include "model/vocabulary.h"
#include "support/llama_oracle.h"
#include "support/logits.h"
#include "support/paged_model.h"
#include "support/prose.h"
#include "support/real_models.h"
#include "support/sanitizers.h"
#include "support/temp_directory.h"

namespace swiftkv {
namespace {

constexpr int kPositions = kSanitized ? 256 : 2000;
constexpr int kContext = 2048;
constexpr int kChunk = 250;

class LinearQualityTest : public testing::Test {
 protected:
  static std::unique_ptr<PagedModel> Open(const std::string& path, const std::string& linear,
                                          bool precise) {
    PagedModelOptions options;
    options.format = "f16";
    options.context = kContext;
    options.max_chunk = kChunk;
    options.linear = linear;
    options.precise = precise;
    auto model = PagedModel::Load(path, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? std::move(*model) : nullptr;
  }

  // Prefills the same text with the precise model and with every backend beside.
  static void ExpectWithin(const std::string& path, const std::string& text, double bound) {
    const auto vocabulary = Vocabulary::Load(path);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
    auto encoded = (*vocabulary)->EncodeText(text);
    ASSERT_TRUE(encoded.ok() && encoded->size() >= static_cast<std::size_t>(kPositions));
    const std::span<const TokenId> tokens = std::span(*encoded).first(kPositions);
    const auto precise = Open(path, "ggml", true);
    ASSERT_NE(precise, nullptr);
    std::vector<std::unique_ptr<PagedModel>> models;
    std::vector<DivergenceSummary> summaries(AllLinearBackends().size());
    for (const LinearBackendRow& row : AllLinearBackends()) {
      models.push_back(Open(path, row.name, false));
      ASSERT_NE(models.back(), nullptr);
    }
    for (std::size_t begin = 0; begin < tokens.size(); begin += kChunk) {
      const auto chunk =
          tokens.subspan(begin, std::min<std::size_t>(kChunk, tokens.size() - begin));
      const Result<Logits> expected = precise->Append(chunk);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      for (std::size_t i = 0; i < models.size(); ++i) {
        const Result<Logits> ours = models[i]->Append(chunk);
        ASSERT_TRUE(ours.ok()) << ours.status().message();
        summaries[i].AddRows(*expected, *ours);
      }
    }
    for (std::size_t i = 0; i < models.size(); ++i) {
      const char* name = AllLinearBackends()[i].name;
      std::printf("%-8s positions %d, mean KLD %.2e, same top-1 %.2f%%\n", name, kPositions,
                  summaries[i].MeanKld(), 100.0 * summaries[i].SameTop1());
      EXPECT_LE(summaries[i].MeanKld(), bound) << name;
    }
  }
};

TEST_F(LinearQualityTest, QuantisedWeightsAreNoFurtherThanLibllamaIsFromItself) {
  const Result<std::string> text = PolicyProse();
  if (!text.ok()) GTEST_SKIP() << text.status().message();
  const Result<std::string> path = RealModelFile(RealModel::kSmolLm2);
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  ExpectWithin(*path, *text, 3.3e-3);
}

TEST_F(LinearQualityTest, F16WeightsLoseNextToNothing) {
  const Result<std::string> text = PolicyProse();
  if (!text.ok()) GTEST_SKIP() << text.status().message();
  const Result<std::string> path = RealModelFile(RealModel::kSmolLm2);
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  const TempDirectory directory;
  const std::string rewritten = directory.FilePath("weights_f16.gguf");
  ASSERT_TRUE(RewriteWeights(*path, rewritten, OracleWeights::kF16).ok());
  ExpectWithin(rewritten, *text, 2e-4);
}

}  // namespace
}  // namespace swiftkv
