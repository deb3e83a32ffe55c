// SPDX-License-Identifier: Apache-2.0
// Measures what dropping half of a prefix costs models that rotate their keys in different ways.
//
// Kept keys stay at their original positions, so no way of rotating may lose more than the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_options.h"
#include "engine/forgetting_evaluation.h"
#include "policy/policy_text.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

constexpr int kPrefix = 384;
constexpr int kTail = 24;
// Of the mean divergence in nats; dropping tokens at the wrong positions costs as much as any
// other noise in the logits, whose standard deviation is near 1/2.
constexpr double kBound = 0.03;

struct RopeCase {
  const char* kind;
  const char* model;
  std::uint32_t rotated = 0;  // channels of a head; 0: all
};
constexpr RopeCase kCases[] = {
    {"interleaved", "llama_gqa3_d64"},
    {"split in halves", "qwen3_d128"},
    {"partial", "phi3_d64", 32},
    {"Llama 3 factors", "llama_gqa4_d128_factors"},
    {"YaRN, interleaved", "llama_d96_yarn"},
    {"YaRN, split in halves", "qwen2_d32_yarn"},
    {"long base", "qwen2_d64_tied"},
};

std::unique_ptr<LanguageModel> LoadCase(const RopeCase& rope, const TempDirectory& directory) {
  const TinyModel& tiny = TinyModelNamed(rope.model);
  RawGguf gguf = MakeTinyGguf(tiny);
  if (rope.rotated > 0) {
    gguf.SetKey(GgufU32Key(std::string(TinyFamilyName(tiny.family)) + ".rope.dimension_count",
                           rope.rotated));
  }
  ModelOptions options;
  options.path = directory.FilePath("tiny.gguf");
  EXPECT_TRUE(WriteBytes(options.path, SerializeGguf(gguf)).ok());
  options.threads = 1;
  options.context = 512;
  options.max_batch_rows = 128;
  options.linear = "ggml";
  auto model = LanguageModel::Load(options, nullptr);
  EXPECT_TRUE(model.ok()) << rope.kind << ": " << model.status().message();
  return model.ok() ? std::move(*model) : nullptr;
}

ForgettingCell HalfOf(const char* policy) {
  auto rule = std::make_shared<ForgettingRule>();
  rule->policy = ParsePolicy(policy).value();
  rule->budget.ratio = 0.5;
  rule->budget.recent = 32;
  rule->schedule.when = CompactionSchedule::When::kAfterPrompt;
  ForgettingCell cell;
  cell.format = ParsePageFormat("f16").value();
  cell.rule = std::move(rule);
  return cell;
}

// Mean divergence from the whole cache, of each cell.
std::vector<double> Losses(LanguageModel* model, const std::vector<ForgettingCell>& cells) {
  const auto tokens = RandomTokens(kPrefix + kTail, model->spec().vocab_size, 5);
  RecallDocument document;
  document.kind = TaskKind::kText;
  document.name = "text/0";
  document.prefix.assign(tokens.begin(), tokens.begin() + kPrefix);
  document.continuations = {
      {std::vector<TokenId>(tokens.begin() + kPrefix, tokens.begin() + kPrefix + kTail), 1}};
  std::vector<double> losses(cells.size());
  ForgettingRunOptions options;
  options.chunk = 12;
  const Status status = ScoreDocument(
      model, document, cells, options,
      [&losses](std::size_t index, const CellScore& score) {
        EXPECT_LT(score.kept_tokens, score.whole_tokens * 53 / 100);
        for (const ScoredToken& token : score.continuations.front()) losses[index] += token.kld;
        losses[index] /= static_cast<double>(score.continuations.front().size());
        return Status::Ok();
      },
      nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
  return losses;
}

TEST(ForgettingRopeTest, DroppingHalfCostsAboutTheSameHoweverKeysAreRotated) {
  const std::vector<ForgettingCell> cells = {HalfOf("keydiff"), HalfOf("expected_attention"),
                                             HalfOf("sink_recent")};
  for (const RopeCase& rope : kCases) {
    const TempDirectory directory;
    const auto model = LoadCase(rope, directory);
    ASSERT_NE(model, nullptr);
    const std::vector<double> losses = Losses(model.get(), cells);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const char* const policy = cells[i].rule->policy.policy->info().name;
      RecordProperty(std::string(rope.model) + " " + policy, std::to_string(losses[i]));
      EXPECT_GT(losses[i], 0) << rope.kind << " " << policy << ": something was dropped";
      EXPECT_LT(losses[i], kBound) << rope.kind << " " << policy;
    }
  }
}

}  // namespace
}  // namespace swiftkv
