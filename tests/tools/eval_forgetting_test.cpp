// SPDX-License-Identifier: Apache-2.0
// Runs whole measurements on a tiny model: what is measured, and what a second run finds.
#include "tools/eval_forgetting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "engine/engine_options.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

constexpr int kContext = 512;

class EvalForgettingTest : public testing::Test {
 protected:
  void SetUp() override {
    TinyModel model = TinyModelNamed("llama_gqa3_d64");
    model.tokenizer.kind = TinyVocabularyKind::kBpe;
    for (int i = 0; text_.size() < 2 * kContext; ++i) text_ += std::to_string(i * i) + ' ';
    task_.measurement.model.path = WriteTinyGguf(model, directory_.path()).value();
    task_.measurement.model.threads = 1;
    task_.measurement.text = text_;
    task_.chunk = 64;
    task_.documents.context = kContext;
    task_.documents.scored_tokens = 32;
    task_.documents.text_windows = 1;
    task_.documents.needle_documents = 0;
    EvalCellLists lists;
    lists.formats = {ParsePageFormat("f16").value()};
    lists.policies = ParsePolicyList("keydiff").value();
    lists.ratios = {0.5};
    lists.splits = {BudgetSplit::kAda};
    lists.kept_as = {kKeptAsStored};
    task_.cells = ListEvalCells(lists).value();
  }

  ForgettingReport Measure(const StageCallback& progress = nullptr) {
    Result<ForgettingReport> report = MeasureForgetting(task_, progress, nullptr);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? std::move(*report) : ForgettingReport{};
  }

  static void ExpectEqual(const ForgettingReport& a, const ForgettingReport& b) {
    ASSERT_EQ(a.rows.size(), b.rows.size());
    for (std::size_t row = 0; row < a.rows.size(); ++row) {
      EXPECT_EQ(a.rows[row].figures.bytes, b.rows[row].figures.bytes);
      for (const RecallMetric metric : {RecallMetric::kMeanKld, RecallMetric::kCopyNll}) {
        const auto at = static_cast<std::size_t>(metric);
        EXPECT_EQ(a.rows[row].figures.intervals[at]->value,
                  b.rows[row].figures.intervals[at]->value);
      }
    }
  }

  TempDirectory directory_;
  std::string text_;
  ForgettingTask task_;
};

TEST_F(EvalForgettingTest, ControlsAreComparedWithAndTheWholeCacheLosesNothing) {
  const ForgettingReport report = Measure();
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.cells, 6);
  EXPECT_EQ(report.kept_cells, 0);
  ASSERT_EQ(report.rows.size(), 3U);
  const auto kld = static_cast<std::size_t>(RecallMetric::kMeanKld);
  const ForgettingRow& whole = report.rows[0];
  const ForgettingRow& random = report.rows[1];
  const ForgettingRow& keydiff = report.rows[2];
  EXPECT_EQ(whole.figures.intervals[kld]->value, 0);
  EXPECT_EQ(whole.figures.positions, 31);
  EXPECT_FALSE(whole.less_random.has_value());
  EXPECT_FALSE(random.less_random.has_value());
  EXPECT_FALSE(keydiff.less_sink_recent.has_value());
  ASSERT_TRUE(keydiff.less_random.has_value());
  EXPECT_NEAR((*keydiff.less_random)[kld]->value,
              keydiff.figures.intervals[kld]->value - random.figures.intervals[kld]->value, 1e-12);
  EXPECT_GT(random.figures.intervals[kld]->value, 0);
  EXPECT_NEAR(keydiff.figures.bytes, random.figures.bytes, 0.02 * whole.figures.bytes);
}

TEST_F(EvalForgettingTest, SplitsAndMixedFormatsAreComparedWithTheirPlainForm) {
  EvalCellLists lists;
  lists.formats = {ParsePageFormat("f16").value()};
  lists.policies = ParsePolicyList("keydiff").value();
  lists.ratios = {0.5};
  lists.splits = {BudgetSplit::kUniform, BudgetSplit::kAda};
  lists.kept_as = {kKeptAsStored, "int8=0.75"};
  task_.cells = ListEvalCells(lists).value();
  const ForgettingReport report = Measure();
  const auto nll = static_cast<std::size_t>(RecallMetric::kCopyNll);
  const auto value = [&](std::size_t row) {
    return report.rows[row].figures.intervals[nll]->value;
  };
  ASSERT_EQ(report.rows.size(), 6U);  // none, random; uniform and ada, each same and mixed
  const auto expect = [&](const std::optional<RecallIntervals>& less, std::size_t a,
                          std::size_t b) {
    ASSERT_TRUE(less.has_value());
    EXPECT_NEAR((*less)[nll]->value, value(a) - value(b), 1e-12);
  };
  EXPECT_FALSE(report.rows[2].less_uniform.has_value());
  EXPECT_FALSE(report.rows[2].less_same.has_value());
  expect(report.rows[3].less_same, 3, 2);
  expect(report.rows[4].less_uniform, 4, 2);
  expect(report.rows[5].less_uniform, 5, 3);
  expect(report.rows[5].less_same, 5, 4);
}

TEST_F(EvalForgettingTest, ARunThatWasStoppedGoesOnAndFindsTheSame) {
  const ForgettingReport at_once = Measure();
  task_.folder = directory_.FilePath("cells");
  const Status stopped = MeasureForgetting(
                             task_,
                             [](const char* stage, double done) {
                               return std::string_view(stage) != "copy/0" || done < 0.6;
                             },
                             nullptr)
                             .status();
  EXPECT_EQ(stopped.code(), StatusCode::kCancelled);
  const ForgettingReport rest = Measure();
  EXPECT_EQ(rest.kept_cells, 4);  // of text/0, and one of copy/0
  ExpectEqual(at_once, rest);
  const ForgettingReport again = Measure();
  EXPECT_EQ(again.kept_cells, again.cells);
  ExpectEqual(at_once, again);
}

TEST_F(EvalForgettingTest, MoreWindowsLeaveNothingToMeasureOfFewer) {
  task_.folder = directory_.FilePath("cells");
  const ForgettingReport few = Measure();
  task_.documents.text_windows = 2;
  const ForgettingReport more = Measure();
  EXPECT_EQ(more.documents, 4);
  EXPECT_EQ(more.kept_cells, few.cells);
}

TEST_F(EvalForgettingTest, WhatDecidesFiguresIsMeasuredAnew) {
  task_.folder = directory_.FilePath("cells");
  Measure();
  task_.documents.seed = 2;  // of random; the rest is measured again as well
  EXPECT_LE(Measure().kept_cells, 2);
  task_.chunk = 32;
  EXPECT_EQ(Measure().kept_cells, 0);
}

}  // namespace
}  // namespace swiftkv
