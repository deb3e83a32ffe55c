// SPDX-License-Identifier: Apache-2.0
// Holds the loss of every page format on real models against llama.cpp's formats at equal bits.
//
// F16 weights, 2,048 tokens of prose, the second half of a window counts: as llama.cpp's
// perplexity tool measured the points below with its own formats on the same text.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "engine/engine_options.h"
#include "support/prose.h"
#include "support/real_models.h"
#include "support/sanitizers.h"
#include "tools/eval_options.h"
#include "tools/quality_measurement.h"

namespace swiftkv {
namespace {

// Bits of a K or V value and mean KLD of llama.cpp with q4_0, q8_0 keys and q4_0 values, q8_0.
struct Point {
  double bits;
  double mean_kld;
};
using Line = std::vector<Point>;

constexpr std::size_t kProseBytes = 9500;  // one window, in either model's tokens

// Returns the loss of the line at `bits`: log KLD is linear in bits between and beyond points.
double LossAt(const Line& line, double bits) {
  std::size_t i = 0;
  while (i + 2 < line.size() && bits > line[i + 1].bits) ++i;
  const double slope =
      std::log(line[i + 1].mean_kld / line[i].mean_kld) / (line[i + 1].bits - line[i].bits);
  return line[i].mean_kld * std::exp(slope * (bits - line[i].bits));
}

// Measures once per model, whichever test comes first.
class EvalQualityTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "figures are no sanitizer's business";
  }

  // Returns the rows by format; empty, with the reason in skip_, where something is missing.
  const std::map<std::string, FormatQuality>& Rows(RealModel model) {
    static std::map<RealModel, std::map<std::string, FormatQuality>> measured;
    std::map<std::string, FormatQuality>& rows = measured[model];
    if (rows.empty()) Measure(model, &rows);
    return rows;
  }

  void Measure(RealModel model, std::map<std::string, FormatQuality>* rows) {
    const Result<std::string> path = RealModelFile(model);
    const Result<std::string> prose = PolicyProse();
    if (!path.ok() || !prose.ok()) {
      skip_ = path.ok() ? prose.status().message() : path.status().message();
      return;
    }
    MeasurementTask task;
    task.model.path = *path;
    task.model.max_batch_rows = kEvalChunk;
    const std::string text = prose->substr(0, kProseBytes);
    task.text = text;
    for (const char* format : {"f16", "bf16", "fp8_e4m3", "fp8_e5m2", "int8", "k8v4", "int4"}) {
      task.formats.push_back(ParsePageFormat(format).value());
    }
    task.weights = MeasuredWeights::kF16;
    task.temporary_folder = testing::TempDir();
    const Result<Measurement> measurement = MeasureQuality(task, nullptr, nullptr);
    ASSERT_TRUE(measurement.ok()) << measurement.status().message();
    for (const FormatQuality& row : measurement->report.rows) {
      std::printf("%-9s %5.2f bits, mean KLD %.2e, 99%% KLD %.2e, same top-1 %.1f%%\n",
                  row.format.c_str(), row.bits_per_value, row.loss.mean_kld, row.loss.p99_kld,
                  100 * row.loss.same_top1);
      (*rows)[row.format] = row;
    }
  }

  static void ExpectOnOrBelow(const Line& line, const FormatQuality& row) {
    EXPECT_LE(row.loss.mean_kld, LossAt(line, row.bits_per_value))
        << row.format << " at " << row.bits_per_value << " bits";
  }

  std::string skip_;
};

const Line& SmolLm2Line() {
  static const Line kLine = {{4.5, 0.0566}, {6.5, 0.0045}, {8.5, 0.00031}};
  return kLine;
}

const Line& Gemma3Line() {
  static const Line kLine = {{4.5, 0.124}, {8.5, 0.00062}};
  return kLine;
}

TEST_F(EvalQualityTest, OurFormatsOnSmolLm2LieOnOrBelowLlamasLine) {
  const auto& rows = Rows(RealModel::kSmolLm2);
  if (rows.empty()) GTEST_SKIP() << skip_;
  for (const char* format : {"int8", "k8v4", "int4"}) {
    ExpectOnOrBelow(SmolLm2Line(), rows.at(format));
  }
  EXPECT_LE(rows.at("int8").loss.mean_kld, 2e-4);
  EXPECT_LE(rows.at("int4").loss.mean_kld, 2.7e-3);
  EXPECT_LE(rows.at("fp8_e4m3").loss.mean_kld, 2.5e-3);
}

TEST_F(EvalQualityTest, SixteenBitsOnSmolLm2LoseNoMoreThanLlamas) {
  const auto& rows = Rows(RealModel::kSmolLm2);
  if (rows.empty()) GTEST_SKIP() << skip_;
  EXPECT_LE(rows.at("f16").loss.mean_kld, 1e-5);
  EXPECT_LE(rows.at("bf16").loss.mean_kld, 1.05e-4);
}

TEST_F(EvalQualityTest, MoreBitsLoseLessOnSmolLm2) {
  const auto& rows = Rows(RealModel::kSmolLm2);
  if (rows.empty()) GTEST_SKIP() << skip_;
  double last = 0;
  for (const char* format : {"f16", "int8", "k8v4", "int4"}) {
    EXPECT_GT(rows.at(format).loss.mean_kld, last) << format;
    last = rows.at(format).loss.mean_kld;
  }
  EXPECT_LT(rows.at("fp8_e4m3").loss.mean_kld, rows.at("fp8_e5m2").loss.mean_kld);
}

TEST_F(EvalQualityTest, OurFormatsOnGemma3LieOnOrBelowLlamasLine) {
  const auto& rows = Rows(RealModel::kGemma3);
  if (rows.empty()) GTEST_SKIP() << skip_;
  for (const char* format : {"int8", "k8v4", "int4"}) {
    ExpectOnOrBelow(Gemma3Line(), rows.at(format));
  }
  EXPECT_LE(rows.at("f16").loss.mean_kld, 1e-5);
}

}  // namespace
}  // namespace swiftkv
