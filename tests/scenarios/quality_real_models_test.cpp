// SPDX-License-Identifier: Apache-2.0
// Measures how far real models on our paged f16 cache drift from libllama over 2,000 positions of
// prose.
//
// Weights are rewritten as F16 first: quantised ones round the activations, which turns last-bit
// differences into a noise floor of .003 and would hide everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "support/llama_oracle.h"
#include "support/logits.h"
#include "support/paged_model.h"
#include "support/prose.h"
#include "support/real_models.h"
#include "support/sanitizers.h"
#include "support/temp_directory.h"

namespace swiftkv {
namespace {

// A sanitizer looks for faults, which show in the first windows and pages; figures are not its
// business.
constexpr int kPositions = kSanitized ? 500 : 2000;
constexpr int kContext = 2048;
constexpr int kChunk = 250;  // rows of logits held at once: of Gemma's vocabulary 250 MiB a side

class RealModelTest : public testing::Test {
 protected:
  // Puts the model with F16 weights beside the test's files, or says why that cannot be.
  Result<std::string> F16Weights(RealModel model) {
    Result<std::string> path = RealModelFile(model);
    if (!path.ok()) return path;
    const std::string rewritten = directory_.FilePath("weights_f16.gguf");
    const Status status = RewriteWeights(*path, rewritten, OracleWeights::kF16);
    EXPECT_TRUE(status.ok()) << status.message();
    return rewritten;
  }

  // Feeds both the same text, ours in chunks of `chunk_of_ours` and the last kChunk tokens one by
  // one, as decoding does; adds up how the distributions differ.
  static void Compare(const std::string& path, const std::string& text, int chunk_of_ours,
                      DivergenceSummary* summary) {
    auto oracle = LlamaOracle::Load(
        path, {.cache = OracleCache::kF16, .context = kContext, .max_chunk = kChunk});
    ASSERT_TRUE(oracle.ok()) << oracle.status().message();
    PagedModelOptions options;
    options.format = "f16";
    options.context = kContext;
    options.max_chunk = kChunk;
    auto paged = PagedModel::Load(path, options);
    ASSERT_TRUE(paged.ok()) << paged.status().message();
    std::vector<int32_t> tokens = (*oracle)->Tokenize(text, /*add_special=*/true);
    ASSERT_GE(tokens.size(), static_cast<size_t>(kPositions));
    tokens.resize(kPositions);
    for (int begin = 0; begin < kPositions; begin += kChunk) {
      const auto chunk = std::span(tokens).subspan(static_cast<size_t>(begin), kChunk);
      const Result<Logits> expected = (*oracle)->Append(chunk);
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      const bool last = begin + kChunk == kPositions;
      const Result<Logits> ours = AppendInChunks(paged->get(), chunk, last ? 1 : chunk_of_ours);
      ASSERT_TRUE(ours.ok()) << ours.status().message();
      summary->AddRows(*expected, *ours);
    }
    std::printf("positions %d, mean KLD %.2e, 99%% KLD %.2e, same top-1 %.2f%%, widest gap %.4f\n",
                kPositions, summary->MeanKld(), summary->KldPercentile(99.0),
                100.0 * summary->SameTop1(), summary->WidestGap());
  }

  static void ExpectTheSameModel(const DivergenceSummary& summary) {
    EXPECT_LE(summary.MeanKld(), 1e-5);
    if (kSanitized) return;  // too few positions for the others
    EXPECT_GE(summary.SameTop1(), 0.998);
    EXPECT_LE(summary.WidestGap(), 0.1);
  }

 private:
  TempDirectory directory_;
};

TEST_F(RealModelTest, SmolLm2WithF16WeightsComputesLibllamasDistributions) {
  const Result<std::string> text = PolicyProse();
  if (!text.ok()) GTEST_SKIP() << text.status().message();
  const Result<std::string> path = F16Weights(RealModel::kSmolLm2);
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  DivergenceSummary summary;
  ASSERT_NO_FATAL_FAILURE(Compare(*path, *text, kChunk, &summary));
  ExpectTheSameModel(summary);
}

TEST_F(RealModelTest, Gemma3WithF16WeightsComputesLibllamasDistributions) {
  const Result<std::string> text = PolicyProse();
  if (!text.ok()) GTEST_SKIP() << text.status().message();
  const Result<std::string> path = F16Weights(RealModel::kGemma3);
  if (!path.ok()) GTEST_SKIP() << path.status().message();
  DivergenceSummary summary;
  // Chunks that are no multiple of the page cross the window's edge in every way.
  ASSERT_NO_FATAL_FAILURE(Compare(*path, *text, 125, &summary));
  ExpectTheSameModel(summary);
}

}  // namespace
}  // namespace swiftkv
