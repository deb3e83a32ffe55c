// SPDX-License-Identifier: Apache-2.0
// Compares the lockstep measurement with running exact and lossy cache one after the other.
#include "engine/quality_evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/engine_options.h"
#include "formats/page_format_table.h"
#include "support/logits.h"
#include "support/paged_model.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

constexpr int kContext = 96;

class QualityEvaluationTest : public testing::Test {
 protected:
  void SetUp() override { Open("llama_gqa3_d64"); }

  void Open(const std::string& name, const std::string& backend = "cpu") {
    path_ = WriteTinyGguf(TinyModelNamed(name), directory_.path()).value();
    ModelOptions options;
    options.path = path_;
    options.threads = 2;
    options.context = 256;
    options.max_batch_rows = 64;
    options.attention_backend = backend;
    options.linear = "ggml";  // as in Run: two loads that each measure may choose differently
    model_ = LanguageModel::Load(options, nullptr).value();
    tokens_ = RandomTokens(2 * kContext + 10, model_->spec().vocab_size, 5);
  }

  QualityTask Task(const std::vector<std::string>& formats) const {
    QualityTask task;
    task.tokens = tokens_;
    task.context = kContext;
    task.chunk = 32;
    for (const std::string& format : formats) {
      task.formats.push_back(ParsePageFormat(format).value());
    }
    return task;
  }

  QualityReport Evaluate(const QualityTask& task) {
    Result<QualityReport> report = EvaluateQuality(model_.get(), task, nullptr, nullptr);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? std::move(*report) : QualityReport{};
  }

  // The definition, window by window, with whole windows of logits.
  DivergenceFigures Plain(const std::string& format, int windows, int chunk, TokenId bos) {
    std::vector<Divergence> positions;
    for (int window = 0; window < windows; ++window) {
      std::vector<TokenId> tokens(tokens_.begin() + window * kContext,
                                  tokens_.begin() + (window + 1) * kContext);
      if (bos != kNoToken) tokens.front() = bos;
      const Logits exact = Run("f32", tokens, chunk);
      const Logits lossy = Run(format, tokens, chunk);
      for (int i = kContext / 2; i < kContext - 1; ++i) {
        const TokenId next = tokens[static_cast<std::size_t>(i) + 1];
        positions.push_back({.kld = KlDivergence(exact.Row(i), lossy.Row(i)),
                             .nll = -LogProbability(lossy.Row(i), next),
                             .same_top1 = ArgMax(exact.Row(i)) == ArgMax(lossy.Row(i))});
      }
    }
    return SummarizeDivergences(positions);
  }

  Logits Run(const std::string& format, const std::vector<TokenId>& tokens, int chunk) const {
    PagedModelOptions options;
    options.format = format;
    options.max_chunk = 64;
    auto paged = PagedModel::Load(path_, options);
    EXPECT_TRUE(paged.ok()) << paged.status().message();
    return AppendInChunks(paged->get(), tokens, chunk).value();
  }

  TempDirectory directory_;
  std::string path_;
  std::unique_ptr<LanguageModel> model_;
  std::vector<TokenId> tokens_;
};

void ExpectNear(const DivergenceFigures& measured, const DivergenceFigures& expected) {
  EXPECT_EQ(measured.positions, expected.positions);
  // The plain statement subtracts numbers near 10.
  constexpr double kRounding = 2e-8;
  EXPECT_NEAR(measured.mean_kld, expected.mean_kld, 1e-3 * expected.mean_kld + kRounding);
  EXPECT_NEAR(measured.p99_kld, expected.p99_kld, 1e-3 * expected.p99_kld + kRounding);
  EXPECT_EQ(measured.same_top1, expected.same_top1);
  EXPECT_NEAR(measured.ppl, expected.ppl, 1e-6 * expected.ppl);
}

TEST_F(QualityEvaluationTest, LockstepGivesWhatRunningOneAfterTheOtherGives) {
  const QualityReport report = Evaluate(Task({"fp8_e4m3", "fp8_e5m2", "f16"}));
  EXPECT_EQ(report.windows, 2);
  ASSERT_EQ(report.rows.size(), 3U);
  EXPECT_EQ(report.rows[0].loss.positions, 2 * (kContext / 2 - 1));
  for (const FormatQuality& row : report.rows) {
    SCOPED_TRACE(row.format);
    ExpectNear(row.loss, Plain(row.format, 2, 32, kNoToken));
    EXPECT_GT(row.loss.mean_kld, 0.0);
  }
  EXPECT_GT(report.rows[1].loss.mean_kld, 1e-6) << "too little to tell anything";
  EXPECT_LT(report.rows[2].loss.mean_kld, report.rows[0].loss.mean_kld);
}

TEST_F(QualityEvaluationTest, ABoundMeasuresFormatsInTurnAndChangesNoFigure) {
  const QualityTask task = Task({"fp8_e4m3", "f16", "int8", "int4", "f32"});
  const QualityReport whole = Evaluate(task);
  EXPECT_EQ(whole.passes, 1);
  QualityTask bounded = task;
  QualityReport report;  // within the smallest bound
  for (bounded.kv_bytes = 4 << 20;; bounded.kv_bytes -= 128 << 10) {
    const auto measured = EvaluateQuality(model_.get(), bounded, nullptr, nullptr);
    if (!measured.ok()) break;
    report = *measured;
    ASSERT_LE(report.kv_peak_bytes, bounded.kv_bytes);
  }
  EXPECT_GT(report.passes, 1);
  ASSERT_EQ(report.rows.size(), whole.rows.size());
  for (std::size_t i = 0; i < whole.rows.size(); ++i) {
    EXPECT_EQ(report.rows[i].format, whole.rows[i].format);
    EXPECT_EQ(report.rows[i].loss.mean_kld, whole.rows[i].loss.mean_kld);
    EXPECT_EQ(report.rows[i].loss.ppl, whole.rows[i].loss.ppl);
    EXPECT_EQ(report.rows[i].bits_per_value, whole.rows[i].bits_per_value);
  }
  bounded.kv_bytes = 4096;
  const Status refused = EvaluateQuality(model_.get(), bounded, nullptr, nullptr).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("than: 4.00 KiB"));
}

TEST_F(QualityEvaluationTest, TheExactFormatLosesNothing) {
  const QualityReport report = Evaluate(Task({"f32"}));
  EXPECT_EQ(report.rows[0].loss.mean_kld, 0.0);
  EXPECT_EQ(report.rows[0].loss.same_top1, 1.0);
  EXPECT_EQ(report.rows[0].bits_per_value, 32.0);
}

TEST_F(QualityEvaluationTest, ModelsThatWantBosFindItAtTheStartOfEveryWindow) {
  QualityTask task = Task({"fp8_e5m2"});
  task.bos = 3;
  ExpectNear(Evaluate(task).rows[0].loss, Plain("fp8_e5m2", 2, 32, 3));
}

TEST_F(QualityEvaluationTest, WindowsThatSlideAreMeasuredToo) {
  Open("gemma3_d256_tied");
  ExpectNear(Evaluate(Task({"fp8_e5m2"})).rows[0].loss, Plain("fp8_e5m2", 2, 32, kNoToken));
}

TEST_F(QualityEvaluationTest, EveryNamedFormatIsMeasuredAndFiniteOnATinyModel) {
  Open("llama_gqa3_d64", "reference");
  std::vector<std::string> names;
  for (const NamedPageFormat& row : AllPageFormats()) names.emplace_back(row.name);
  for (const FormatQuality& row : Evaluate(Task(names)).rows) {
    SCOPED_TRACE(row.format);
    EXPECT_TRUE(std::isfinite(row.loss.mean_kld));
    EXPECT_LT(row.loss.mean_kld, 0.1);
    EXPECT_GE(row.bits_per_value, 4.0);
    EXPECT_GT(row.bytes, 0U);
  }
}

TEST_F(QualityEvaluationTest, ATextShorterThanAWindowIsOneWindow) {
  QualityTask task = Task({"f16"});
  task.context = 2048;
  const QualityReport report = Evaluate(task);
  EXPECT_EQ(report.windows, 1);
  EXPECT_EQ(report.context, static_cast<int>(tokens_.size()));
}

TEST_F(QualityEvaluationTest, ATextOfAFewTokensIsRefused) {
  QualityTask task = Task({"f16"});
  task.tokens = std::span(tokens_).first(kLeastWindowTokens - 1);
  const Result<QualityReport> report = EvaluateQuality(model_.get(), task, nullptr, nullptr);
  EXPECT_EQ(report.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(report.status().message(), HasSubstr("15"));
}

TEST_F(QualityEvaluationTest, ProgressRisesAndStopsTheRun) {
  double last = -1;
  int calls = 0;
  const auto stop_late = [&](double done) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, 1.0);
    last = done;
    return ++calls < 5;
  };
  const QualityTask task = Task({"f16"});
  EXPECT_EQ(EvaluateQuality(model_.get(), task, stop_late, nullptr).status().code(),
            StatusCode::kCancelled);
  EXPECT_EQ(calls, 5);
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(EvaluateQuality(model_.get(), task, nullptr, &cancel).status().code(),
            StatusCode::kCancelled);
}

}  // namespace
}  // namespace swiftkv
