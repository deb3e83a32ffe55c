// SPDX-License-Identifier: Apache-2.0
// Compares scores of cells with running the model plainly, and looks at what cells hold.
#include "engine/forgetting_evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_options.h"
#include "policy/policy_text.h"
#include "support/logits.h"
#include "support/paged_model.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

constexpr int kPrefix = 320;
constexpr int kTail = 40;

class ForgettingEvaluationTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = WriteTinyGguf(TinyModelNamed("llama_gqa3_d64"), directory_.path()).value();
    ModelOptions options;
    options.path = path_;
    options.threads = 2;
    options.context = 512;
    options.max_batch_rows = 128;
    options.linear = "ggml";
    model_ = LanguageModel::Load(options, nullptr).value();
    const std::vector<TokenId> tokens =
        RandomTokens(kPrefix + 2 * kTail, model_->spec().vocab_size, 5);
    document_.kind = TaskKind::kText;
    document_.name = "text/0";
    document_.prefix.assign(tokens.begin(), tokens.begin() + kPrefix);
    document_.continuations = {
        {std::vector<TokenId>(tokens.begin() + kPrefix, tokens.begin() + kPrefix + kTail), 3},
        {std::vector<TokenId>(tokens.begin() + kPrefix + kTail, tokens.end()), 1}};
  }

  static ForgettingCell Cell(const std::string& format, const std::string& policy,
                             double ratio = 0.5) {
    ForgettingCell cell;
    cell.format = ParsePageFormat(format).value();
    if (policy == "none") return cell;
    auto rule = std::make_shared<ForgettingRule>();
    rule->format = {cell.format.key->info().name, cell.format.value->info().name};
    rule->policy = ParsePolicy(policy).value();
    rule->budget.ratio = ratio;
    rule->budget.recent = 32;
    rule->schedule.when = CompactionSchedule::When::kAfterPrompt;
    cell.rule = std::move(rule);
    return cell;
  }

  std::vector<CellScore> Score(const std::vector<ForgettingCell>& cells) {
    std::vector<CellScore> scores(cells.size());
    ForgettingRunOptions options;
    options.chunk = 16;
    const Status status = ScoreDocument(
        model_.get(), document_, cells, options,
        [&scores](std::size_t index, CellScore score) {
          scores[index] = std::move(score);
          return Status::Ok();
        },
        nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
    return scores;
  }

  TempDirectory directory_;
  std::string path_;
  std::unique_ptr<LanguageModel> model_;
  RecallDocument document_;
};

TEST_F(ForgettingEvaluationTest, AWholeF16CacheLosesNothingAndGivesThePlainLikelihoods) {
  const CellScore score = Score({Cell("f16", "none")}).front();
  ASSERT_EQ(score.continuations.size(), 2U);
  EXPECT_EQ(score.kept_tokens, score.whole_tokens);
  EXPECT_EQ(score.bits_per_value, 16);
  for (std::size_t i = 0; i < 2; ++i) {
    const Continuation& continuation = document_.continuations[i];
    std::vector<TokenId> tokens = document_.prefix;
    tokens.insert(tokens.end(), continuation.tokens.begin(), continuation.tokens.end());
    PagedModelOptions options;
    options.format = "f16";
    std::unique_ptr<PagedModel> plain = PagedModel::Load(path_, options).value();
    const Logits logits = AppendInChunks(plain.get(), tokens, 64).value();
    const std::vector<ScoredToken>& scored = score.continuations[i];
    ASSERT_EQ(scored.size(), static_cast<std::size_t>(kTail - continuation.first_scored));
    for (std::size_t t = 0; t < scored.size(); ++t) {
      const int row = kPrefix + continuation.first_scored + static_cast<int>(t) - 1;
      const TokenId next = tokens[static_cast<std::size_t>(row) + 1];
      EXPECT_NEAR(scored[t].nll, -LogProbability(logits.Row(row), next), 1e-3);
      EXPECT_EQ(scored[t].kld, 0);
      EXPECT_TRUE(scored[t].same_top1);
    }
  }
}

TEST_F(ForgettingEvaluationTest, ACompressedPrefixHoldsItsPartOfTheBytesAndDiffers) {
  const auto scores = Score({Cell("f16", "none"), Cell("f16", "random"), Cell("f16", "keydiff"),
                             Cell("f16", "sink_recent"), Cell("int8", "random")});
  const double whole = static_cast<double>(scores[0].bytes);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_LE(static_cast<double>(scores[i].bytes), whole * 0.52) << i;
    EXPECT_GE(static_cast<double>(scores[i].bytes), whole * 0.4) << i;
    EXPECT_LT(scores[i].kept_tokens, scores[i].whole_tokens);
    double kld = 0;
    for (const ScoredToken& token : scores[i].continuations[1]) kld += token.kld;
    EXPECT_GT(kld, 0);
  }
  EXPECT_LT(scores[4].bytes, scores[1].bytes * 6 / 10);
}

TEST_F(ForgettingEvaluationTest, APartInASmallerFormatMakesRoomForMoreTokens) {
  const auto mixed = [](double ratio) {
    ForgettingCell cell = Cell("f16", "keydiff", ratio);
    auto rule = std::make_shared<ForgettingRule>(*cell.rule);
    rule->kept_formats = {rule->format, {"int8", "int8"}};
    rule->budget.format_shares = {0.25, 0.75};
    cell.rule = std::move(rule);
    return cell;
  };
  const auto scores = Score({Cell("f16", "none"), Cell("f16", "keydiff", 0.5), mixed(0.5),
                             Cell("f16", "keydiff", 0.25), mixed(0.25)});
  EXPECT_LE(static_cast<double>(scores[2].bytes), static_cast<double>(scores[1].bytes) * 1.02);
  EXPECT_GT(scores[2].kept_tokens, scores[1].kept_tokens * 12 / 10);
  EXPECT_LT(scores[2].bits_per_value, 14);
  // Smaller formats hold every token: none is dropped, and the bytes fall all the same.
  EXPECT_EQ(scores[4].kept_tokens, scores[0].kept_tokens);
  EXPECT_LT(scores[4].bytes, scores[0].bytes * 8 / 10);
}

TEST_F(ForgettingEvaluationTest, ACellsScoreDoesNotDependOnTheOthers) {
  const auto together =
      Score({Cell("int8", "keydiff"), Cell("f16", "expected_attention"), Cell("f16", "snapkv"),
             Cell("f16", "snapkv:window=16"), Cell("f16", "none")});
  EXPECT_EQ(Score({Cell("f16", "expected_attention")}).front(), together[1]);
  EXPECT_EQ(Score({Cell("f16", "snapkv")}).front(), together[2]);
  EXPECT_EQ(Score({Cell("f16", "snapkv:window=16")}).front(), together[3]);
  EXPECT_EQ(Score({Cell("int8", "keydiff")}).front(), together[0]);
}

TEST_F(ForgettingEvaluationTest, ASinksErrorEndsTheRun) {
  int calls = 0;
  const std::vector<ForgettingCell> cells = {Cell("f16", "none"), Cell("f16", "random")};
  const Status status = ScoreDocument(
      model_.get(), document_, cells, {},
      [&calls](std::size_t, const CellScore&) {
        ++calls;
        return Status::Cancelled("enough");
      },
      nullptr);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(calls, 1);
}

TEST_F(ForgettingEvaluationTest, ADocumentBeyondTheContextIsRefused) {
  document_.prefix.resize(500, 1);
  const std::vector<ForgettingCell> cells = {Cell("f16", "none")};
  const Status status = ScoreDocument(model_.get(), document_, cells, {}, nullptr, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr("540"));
}

}  // namespace
}  // namespace swiftkv
