// SPDX-License-Identifier: Apache-2.0
// Tests what is concluded from figures that were made up.
#include "engine/calibration.h"

#include <gtest/gtest.h>

#include <limits>

#include "engine/engine_options.h"

namespace swiftkv {
namespace {

FormatQuality Row(const std::string& format, double mean_kld, std::uint64_t bytes) {
  FormatQuality row;
  row.format = format;
  row.loss.mean_kld = mean_kld;
  row.bytes = bytes;
  return row;
}

Calibration Example() {
  Calibration calibration;
  calibration.noise_floor = 2e-6;
  calibration.rows = {Row("f16", 2e-6, 1600), Row("bf16", 1e-4, 1600), Row("fp8_e4m3", 2e-3, 825),
                      Row("int8", 3e-4, 825), Row("k8v4", 0.004, 625), Row("int4", 0.06, 425)};
  return calibration;
}

std::string Chosen(const Calibration& calibration, Quality ceiling) {
  const FormatQuality* row = SmallestFineFormat(calibration, ceiling);
  return row == nullptr ? "none" : row->format;
}

LossVerdict Judge(const std::string& format, const Calibration* calibration) {
  return JudgeFormat(ParsePageFormat(format).value(), calibration);
}

TEST(CalibrationTest, TheFewestBytesWithinTheLimitAreChosen) {
  EXPECT_EQ(Chosen(Example(), Quality::kAny), "k8v4");
  Calibration worse = Example();
  worse.rows[4].loss.mean_kld = kFineMeanKld;
  EXPECT_EQ(Chosen(worse, Quality::kAny), "int8") << "the limit itself is too much";
}

TEST(CalibrationTest, OfEqualBytesTheSmallerLossIsChosen) {
  EXPECT_EQ(Chosen(Example(), Quality::kNear), "int8");
  EXPECT_EQ(Chosen(Example(), Quality::kExact), "f16");
}

TEST(CalibrationTest, WhereEverythingLosesTooMuchNothingIsChosen) {
  Calibration hopeless = Example();
  for (FormatQuality& row : hopeless.rows) {
    row.loss.mean_kld = std::numeric_limits<double>::infinity();
  }
  EXPECT_EQ(Chosen(hopeless, Quality::kAny), "none");
  EXPECT_EQ(Chosen(Calibration{}, Quality::kAny), "none");
}

TEST(CalibrationTest, PairsWithoutANameAreNotChosen) {
  Calibration calibration = Example();
  calibration.rows.push_back(Row("int4/fp8_e5m2", 1e-5, 1));
  calibration.rows.push_back(Row("nonsense", 1e-5, 1));
  EXPECT_EQ(Chosen(calibration, Quality::kAny), "k8v4");
}

TEST(CalibrationTest, TheNoiseFloorOfRoundedWeightsIsNobodysLoss) {
  Calibration calibration = Example();
  calibration.weights = MeasuredWeights::kAsIs;
  calibration.noise_floor = 0.055;
  EXPECT_EQ(Chosen(calibration, Quality::kAny), "int4");
  EXPECT_EQ(Judge("int4", &calibration), LossVerdict::kFine);
  EXPECT_EQ(FormatLoss(calibration, calibration.rows[0]), 0.0);
}

TEST(CalibrationTest, VerdictsFollowTheLimits) {
  Calibration calibration = Example();
  EXPECT_EQ(Judge("int8", &calibration), LossVerdict::kFine);
  EXPECT_EQ(Judge("int4", &calibration), LossVerdict::kLossy);
  EXPECT_EQ(Judge("fp8_e5m2", &calibration), LossVerdict::kUnknown);
  EXPECT_EQ(Judge("int8", nullptr), LossVerdict::kUnknown);
  calibration.rows[5].loss.mean_kld = 0.11;
  EXPECT_EQ(Judge("int4", &calibration), LossVerdict::kRuined);
  calibration.rows[5].loss.mean_kld = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Judge("int4", &calibration), LossVerdict::kRuined);
}

TEST(CalibrationTest, FormatsOf16BitsAndMoreAreNeverQuestioned) {
  Calibration bad;
  for (const char* format : {"f16", "bf16", "f32", "f16/bf16"}) {
    bad.rows = {Row(format, 1.0, 1)};
    EXPECT_EQ(Judge(format, &bad), LossVerdict::kFine) << format;
    EXPECT_EQ(Judge(format, nullptr), LossVerdict::kFine) << format;
  }
  EXPECT_EQ(Judge("f16/int8", nullptr), LossVerdict::kUnknown);
}

TEST(CalibrationTest, NewRowsReplaceOldOnesOfTheSameFormat) {
  Calibration calibration = Example();
  MergeRows({Row("int8", 0.5, 1), Row("fp8_e5m2", 0.25, 2)}, &calibration);
  EXPECT_EQ(calibration.rows.size(), Example().rows.size() + 1);
  EXPECT_EQ(calibration.Find("int8")->loss.mean_kld, 0.5);
  EXPECT_EQ(calibration.Find("fp8_e5m2")->loss.mean_kld, 0.25);
  EXPECT_EQ(calibration.Find("int"), nullptr);
}

}  // namespace
}  // namespace swiftkv
