// SPDX-License-Identifier: Apache-2.0
// Holds every named page format to a bounded loss on whole models: all head sizes, all instruction
// sets, prompts in chunks and tokens one by one, around a sliding window.
//
// The exact cache of the same model is the reference, so that nothing but the format differs. Free
// and fresh frames are poisoned with NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "formats/page_format_table.h"
#include "support/logits.h"
#include "support/paged_model.h"
#include "support/sanitizers.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

// A model of seven layers, so that three of them hold what guard rails do not raise to 8 bits.
TinyModel DeepModel(const std::string& base, int head_dim) {
  TinyModel model = TinyModelNamed(base);
  model.name = base + "_deep_" + std::to_string(head_dim);
  model.shape.layers = 7;
  model.shape.head_dim = head_dim;
  return model;
}

// Returns how far the distributions of a format may lie from the exact ones on average: some times
// the most that was seen. Random weights give flat distributions, which forgive more than a trained
// model's.
double LossBound(const PageCodec& codec) {
  switch (codec.info().id) {
    case FormatId::kF32:
    case FormatId::kF16:
      return 1e-7;
    case FormatId::kBf16:
    case FormatId::kInt8:
      return 1e-4;
    case FormatId::kFp8E4m3:
      return 8e-4;
    case FormatId::kFp8E5m2:
      return 5e-3;
    case FormatId::kInt4:
      return 1e-3;
  }
  return 0;
}

double LossBound(const PageFormat& format) {
  return std::max(LossBound(*format.key), LossBound(*format.value));
}

// Logits of `prompt` tokens in chunks and of the rest one by one.
Logits Run(const std::string& path, const std::string& format, const std::string& isa,
           std::span<const int32_t> tokens, int prompt) {
  PagedModelOptions options;
  options.format = format;
  options.isa = isa;
  const auto paged = PagedModel::Load(path, options);
  EXPECT_TRUE(paged.ok()) << paged.status().message();
  if (!paged.ok()) return {};
  Result<Logits> logits =
      AppendInChunks(paged->get(), tokens.first(static_cast<std::size_t>(prompt)), 48);
  const Result<Logits> rest =
      AppendInChunks(paged->get(), tokens.subspan(static_cast<std::size_t>(prompt)), 1);
  EXPECT_TRUE(logits.ok() && rest.ok());
  if (!logits.ok() || !rest.ok()) return {};
  logits->rows += rest->rows;
  logits->values.insert(logits->values.end(), rest->values.begin(), rest->values.end());
  (*paged)->cache().CheckInvariants();
  return *logits;
}

void ExpectBoundedLoss(const std::string& path, const std::string& isa,
                       std::span<const int32_t> tokens, int prompt) {
  const Logits exact = Run(path, "f32", isa, tokens, prompt);
  for (const NamedPageFormat& row : AllPageFormats()) {
    const Logits logits = Run(path, row.name, isa, tokens, prompt);
    ASSERT_EQ(logits.values.size(), exact.values.size());
    ASSERT_TRUE(std::all_of(logits.values.begin(), logits.values.end(),
                            [](float value) { return std::isfinite(value); }))
        << row.name << " on " << isa;
    DivergenceSummary loss;
    loss.AddRows(exact, logits);
    EXPECT_LE(loss.MeanKld(), LossBound(row.format))
        << row.name << " on " << isa << ", prompt of " << prompt;
  }
}

class FormatLogitsTest : public testing::TestWithParam<int> {
 protected:
  TempDirectory directory_;
};

TEST_P(FormatLogitsTest, EveryFormatOfEveryInstructionSetLosesLittle) {
  const TinyModel model = DeepModel("llama_gqa3_d64", GetParam());
  const Result<std::string> path = WriteTinyGguf(model, directory_.path());
  ASSERT_TRUE(path.ok()) << path.status().message();
  const std::vector<int32_t> tokens = RandomTokens(230, model.shape.vocabulary, 5);
  for (const Isa isa : AllIsas()) {
    if (!Runs(HostCpu(), isa)) continue;
    if (kSanitized && isa != BestIsa(HostCpu())) continue;
    ExpectBoundedLoss(*path, IsaName(isa), tokens, 220);
  }
}

INSTANTIATE_TEST_SUITE_P(HeadSizes, FormatLogitsTest,
                         testing::Values(64, 80, 96, 112, 128, 192, 256));

TEST(FormatWindowTest, EveryFormatLosesLittleBeforeAtAndFarBehindAWindow) {
  TempDirectory directory;
  TinyModel model = DeepModel("gemma3_d64_linear", 64);
  model.window.tokens = 160;  // beyond the newest 128, so that blocks within it are sealed
  const Result<std::string> path = WriteTinyGguf(model, directory.path());
  ASSERT_TRUE(path.ok()) << path.status().message();
  for (const int prompt : {80, 176, 480}) {
    const std::vector<int32_t> tokens = RandomTokens(prompt + 10, model.shape.vocabulary, 6);
    ExpectBoundedLoss(*path, "auto", tokens, prompt);
  }
}

}  // namespace
}  // namespace swiftkv
