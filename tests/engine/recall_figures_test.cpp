// SPDX-License-Identifier: Apache-2.0
// Tests which tokens count for which metric, and that pairs are of the same units.
#include "engine/recall_figures.h"

#include <gtest/gtest.h>

namespace swiftkv {
namespace {

RecallDocument Document(TaskKind kind, bool inside = false, double depth = 0) {
  RecallDocument document;
  document.kind = kind;
  document.question_inside = inside;
  document.depth = depth;
  document.length = 512;
  return document;
}

std::vector<ScoredToken> Tokens(std::size_t count, double kld, double nll, bool hit) {
  return std::vector<ScoredToken>(count, {.kld = kld, .nll = nll, .same_top1 = hit, .hit = hit});
}

class RecallFiguresTest : public testing::Test {
 protected:
  RecallFiguresTest() {
    Add(Document(TaskKind::kText), {Tokens(64, 0.5, 2, true)}, 1000);
    Add(Document(TaskKind::kText), {Tokens(64, 1.5, 4, false)}, 3000);
    Add(Document(TaskKind::kCopy), {Tokens(100, 0, 0.25, true)}, 77);
    Add(Document(TaskKind::kNeedle, false, 0.1), {Tokens(5, 0, 1, true)}, 77);
    Add(Document(TaskKind::kNeedle, false, 0.5), {Tokens(5, 0, 3, false)}, 77);
    Add(Document(TaskKind::kNeedle, true, 0.1), {Tokens(5, 0, 7, true)}, 77);
    auto half = Tokens(4, 0, 8, true);
    half.front().hit = false;
    Add(Document(TaskKind::kMultiNeedle), {Tokens(5, 0, 1, true), half}, 77);
  }

  void Add(RecallDocument document, std::vector<std::vector<ScoredToken>> continuations,
           std::uint64_t bytes) {
    documents_.push_back(std::move(document));
    CellScore score;
    score.bytes = bytes;
    score.bits_per_value = 16;
    score.kept_tokens = 30;
    score.whole_tokens = 60;
    score.continuations = std::move(continuations);
    scores_.push_back(std::move(score));
  }

  static double ValueOf(const RecallIntervals& intervals, RecallMetric metric) {
    return intervals[static_cast<std::size_t>(metric)]->value;
  }

  std::vector<RecallDocument> documents_;
  std::vector<CellScore> scores_;
};

TEST_F(RecallFiguresTest, EachMetricLooksAtItsOwnDocuments) {
  const CellFigures figures = SummarizeCell(documents_, scores_, {});
  const auto value = [&](RecallMetric metric) { return ValueOf(figures.intervals, metric); };
  EXPECT_DOUBLE_EQ(value(RecallMetric::kMeanKld), 1);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kP99Kld), 1.5);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kSameTop1), 0.5);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kTextNll), 3);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kCopyNll), 0.25);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kNeedleNll), 2);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kNeedleHit), 0.5);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kNeedleInsideNll), 7);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kNeedleInsideHit), 1);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kMultiNeedleNll), (5.0 * 1 + 4 * 8) / 9);
  EXPECT_DOUBLE_EQ(value(RecallMetric::kMultiNeedleHit), 0.5);
  EXPECT_DOUBLE_EQ(figures.bytes, 2000);
  EXPECT_DOUBLE_EQ(figures.bits_per_value, 16);
  EXPECT_DOUBLE_EQ(figures.kept_fraction, 0.5);
  EXPECT_EQ(figures.positions, 128);
}

TEST_F(RecallFiguresTest, MetricsWithoutDocumentsHaveNoFigure) {
  const CellFigures figures =
      SummarizeCell(std::span(documents_).subspan(2, 1), std::span(scores_).subspan(2, 1), {});
  EXPECT_FALSE(figures.intervals[static_cast<std::size_t>(RecallMetric::kMeanKld)].has_value());
  EXPECT_TRUE(figures.intervals[static_cast<std::size_t>(RecallMetric::kCopyNll)].has_value());
  EXPECT_DOUBLE_EQ(figures.bytes, 77);
}

TEST_F(RecallFiguresTest, DifferencesArePairedByUnit) {
  std::vector<CellScore> worse = scores_;
  for (CellScore& score : worse) {
    for (auto& tokens : score.continuations) {
      for (ScoredToken& token : tokens) token.nll += 0.5;
    }
  }
  const RecallIntervals less = CompareCells(documents_, worse, scores_, {});
  for (const RecallMetric metric :
       {RecallMetric::kTextNll, RecallMetric::kCopyNll, RecallMetric::kNeedleNll}) {
    const Interval& interval = *less[static_cast<std::size_t>(metric)];
    EXPECT_NEAR(interval.value, 0.5, 1e-12);
    EXPECT_NEAR(interval.low, 0.5, 1e-9);
    EXPECT_NEAR(interval.high, 0.5, 1e-9);
  }
  EXPECT_EQ(ValueOf(less, RecallMetric::kNeedleHit), 0);
}

TEST_F(RecallFiguresTest, NeedlesAreToldByPlace) {
  const std::vector<NeedleFigures> needles = NeedlesOf(documents_, scores_);
  ASSERT_EQ(needles.size(), 4U);
  EXPECT_EQ(needles[1].depth, 0.5);
  EXPECT_EQ(needles[1].hit, 0);
  EXPECT_EQ(needles[1].nll, 3);
  EXPECT_TRUE(needles[2].question_inside);
  EXPECT_EQ(needles[3].kind, TaskKind::kMultiNeedle);
  EXPECT_EQ(needles[3].answers, 2);
}

TEST(RecallMetricTest, TheTableIsInTheOrderOfTheMetrics) {
  ASSERT_EQ(AllRecallMetrics().size(), kRecallMetrics);
  for (std::size_t i = 0; i < kRecallMetrics; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(AllRecallMetrics()[i].metric), i);
  }
}

}  // namespace
}  // namespace swiftkv
