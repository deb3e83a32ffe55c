// SPDX-License-Identifier: Apache-2.0
// Tests what the table and the JSON of forgetting say of made-up figures.
#include "tools/eval_forgetting_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "engine/engine_options.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class EvalForgettingReportTest : public testing::Test {
 protected:
  void SetUp() override {
    EvalCellLists lists;
    lists.formats = {ParsePageFormat("f16").value()};
    lists.policies = ParsePolicyList("sink_recent,keydiff,expected_attention").value();
    lists.ratios = {0.5};
    lists.splits = {BudgetSplit::kAda};
    lists.kept_as = {"int8=0.75"};
    cells_ = ListEvalCells(lists).value();
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      ForgettingRow& row = report_.rows.emplace_back();
      row.figures.bytes = 1024.0 * 1024 * static_cast<double>(i + 1);
      row.figures.bits_per_value = 16;
      Set(RecallMetric::kTextNll, {1, 0.5, 1.5}, &row.figures.intervals);
      Set(RecallMetric::kNeedleHit, {0.25, 0, 0.5}, &row.figures.intervals);
    }
  }

  static void Set(RecallMetric metric, const Interval& interval, RecallIntervals* intervals) {
    (*intervals)[static_cast<std::size_t>(metric)] = interval;
  }

  // The metric of the last row and its difference from random.
  void Compare(RecallMetric metric, const Interval& value, const Interval& difference) {
    ForgettingRow& row = report_.rows.back();
    Set(metric, value, &row.figures.intervals);
    row.less_random = RecallIntervals{};
    Set(metric, difference, &*row.less_random);
  }

  std::string Table() const { return ForgettingTable(source_, cells_, report_); }
  json Json() const { return json::parse(ForgettingJson(source_, cells_, report_)); }

  ForgettingSource source_ = {.model = "m.gguf", .text = "t.txt", .text_sha256 = "ab"};
  std::vector<EvalCell> cells_;
  ForgettingReport report_;
};

// Characters, of which UTF-8 continuation bytes are none.
std::size_t Width(const std::string& line) {
  std::size_t width = 0;
  for (const char c : line) width += (static_cast<unsigned char>(c) & 0xC0) == 0x80 ? 0 : 1;
  return width;
}

TEST_F(EvalForgettingReportTest, ColumnsStandInLineHoweverLongAName) {
  std::istringstream lines(Table());
  std::string line;
  while (std::getline(lines, line) && !line.empty()) {
  }
  std::set<std::size_t> widths;
  std::size_t rows = 0;
  while (std::getline(lines, line)) {
    widths.insert(Width(line));
    ++rows;
  }
  EXPECT_EQ(rows, cells_.size() + 1);
  EXPECT_EQ(widths.size(), 1U);
  EXPECT_THAT(Table(), HasSubstr("sinks=4 ada int8=0.75 "));
}

TEST_F(EvalForgettingReportTest, OnlyWhatLiesOutsideTheIntervalIsMarked) {
  Compare(RecallMetric::kCopyNll, {0.75, 0.5, 1}, {-0.25, -0.5, -0.125});
  EXPECT_THAT(Table(), HasSubstr(" 0.750±0.250+"));
  Compare(RecallMetric::kCopyNll, {0.75, 0.5, 1}, {0.25, 0.125, 0.5});
  EXPECT_THAT(Table(), HasSubstr(" 0.750±0.250-"));
  Compare(RecallMetric::kCopyNll, {0.75, 0.5, 1}, {-0.25, -0.5, 0});
  EXPECT_THAT(Table(), HasSubstr(" 0.750±0.250 "));
}

TEST_F(EvalForgettingReportTest, WhatWasNotMeasuredIsADashAndNull) {
  EXPECT_THAT(Table(), HasSubstr(" 2.718 "));
  for (ForgettingRow& row : report_.rows) row.figures.intervals = {};
  EXPECT_THAT(Table(), testing::Not(HasSubstr("0.000")));
  const json object = Json();
  for (const json& row : object["rows"]) {
    for (const char* key : {"mean_kld", "ppl", "copy_nll", "needle_hit"}) {
      EXPECT_TRUE(row.at(key).is_null()) << key;
    }
    EXPECT_TRUE(row.at("intervals").empty());
  }
}

TEST_F(EvalForgettingReportTest, JsonHasEveryRowWithItsLimitsAndDifferences) {
  Compare(RecallMetric::kCopyNll, {0.75, 0.5, 1}, {-0.25, -0.5, -0.125});
  report_.rows.back().needles = {{TaskKind::kNeedle, 512, 0.1, true, 3, 1.5, 0.5},
                                 {TaskKind::kMultiNeedle, 512, 0, false, 5, 2.5, 0.25}};
  report_.rows.back().less_same = report_.rows.back().less_random;
  const json object = Json();
  EXPECT_EQ(object["query_statistics"], "own");
  ASSERT_EQ(object["rows"].size(), cells_.size());
  const json& whole = object["rows"].front();
  EXPECT_EQ(whole["policy"], "none");
  EXPECT_TRUE(whole["budget_split"].is_null());
  EXPECT_TRUE(whole["less_random"].is_null());
  EXPECT_EQ(object["rows"][2]["budget_split"], "uniform");  // a control
  const json& row = object["rows"].back();
  EXPECT_EQ(row["budget_split"], "ada");
  EXPECT_EQ(row["kept_as"], "int8=0.75");
  EXPECT_EQ(row["bytes"], (1 << 20) * cells_.size());
  EXPECT_EQ(row["copy_nll"], 0.75);
  EXPECT_EQ(row["intervals"]["copy_nll"], json({0.5, 1}));
  EXPECT_EQ(row["less_random"]["copy_nll"], json({-0.25, -0.5, -0.125}));
  EXPECT_EQ(row["less_same"], row["less_random"]);
  EXPECT_TRUE(row["less_sink_recent"].is_null());
  EXPECT_TRUE(row["less_uniform"].is_null());
  EXPECT_EQ(row["needles"][0]["depth"], 0.1);
  EXPECT_TRUE(row["needles"][1]["depth"].is_null());  // at all depths
  EXPECT_EQ(row["needles"][1]["nll"], 2.5);
}

}  // namespace
}  // namespace swiftkv
