// SPDX-License-Identifier: Apache-2.0
// Tests that kept figures come back whole or not at all.
#include "tools/calibration_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "tools/calibration_text.h"

namespace swiftkv {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kModel = "0123abcd";

FormatQuality Row(const std::string& format, double mean_kld) {
  FormatQuality row;
  row.format = format;
  row.loss = {.positions = 1023,
              .mean_kld = mean_kld,
              .p99_kld = 4 * mean_kld,
              .same_top1 = 0.875,
              .ppl = 12.5};
  row.bits_per_value = 8.25;
  row.bytes = 1234567;
  return row;
}

Calibration Example() {
  Calibration calibration;
  calibration.text_sha256 = CalibrationTextSha256();
  calibration.context = 2048;
  calibration.chunk = 128;
  calibration.noise_floor = 2e-6;
  calibration.rows = {Row("f16", 2e-6), Row("int8", 3e-4)};
  return calibration;
}

class CalibrationStoreTest : public testing::Test {
 protected:
  std::string ReadFile() const {
    std::ifstream file(store_.PathOf(kModel));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Expects that a file with these bytes counts as not there, for a reason.
  void ExpectUnusable(const std::string& bytes, const std::string& reason) const {
    ASSERT_TRUE(WriteBytes(store_.PathOf(kModel), bytes).ok());
    const Result<Calibration> loaded = store_.Load(kModel);
    ASSERT_FALSE(loaded.ok()) << bytes.substr(0, 200);
    EXPECT_EQ(loaded.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(loaded.status().message(), HasSubstr(reason));
    EXPECT_THAT(loaded.status().message(), HasSubstr(store_.PathOf(kModel)));
  }

  TempDirectory directory_;
  CalibrationStore store_{directory_.FilePath("a/b")};
};

TEST_F(CalibrationStoreTest, FiguresComeBackAsTheyWere) {
  Calibration calibration = Example();
  calibration.rows[1].loss.mean_kld = 0.1;  // no short binary fraction
  calibration.rows.push_back(Row("int4", std::numeric_limits<double>::infinity()));
  ASSERT_TRUE(store_.Save(kModel, calibration).ok());
  const Result<Calibration> loaded = store_.Load(kModel);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->context, 2048);
  EXPECT_EQ(loaded->chunk, 128);
  EXPECT_EQ(loaded->weights, MeasuredWeights::kF16);
  EXPECT_EQ(loaded->noise_floor, 2e-6);
  ASSERT_EQ(loaded->rows.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const FormatQuality& row = loaded->rows[i];
    EXPECT_EQ(row.format, calibration.rows[i].format);
    EXPECT_EQ(row.loss.mean_kld, calibration.rows[i].loss.mean_kld);
    EXPECT_EQ(row.loss.p99_kld, calibration.rows[i].loss.p99_kld);
    EXPECT_EQ(row.loss.same_top1, 0.875);
    EXPECT_EQ(row.loss.ppl, 12.5);
    EXPECT_EQ(row.loss.positions, 1023);
    EXPECT_EQ(row.bits_per_value, 8.25);
    EXPECT_EQ(row.bytes, 1234567U);
  }
}

TEST_F(CalibrationStoreTest, WhatWasNeverKeptIsNotFound) {
  EXPECT_EQ(store_.Load(kModel).status().code(), StatusCode::kNotFound);
  const CalibrationStore nowhere("");
  EXPECT_TRUE(nowhere.Save(kModel, Example()).ok());
  EXPECT_EQ(nowhere.Load(kModel).status().code(), StatusCode::kNotFound);
}

TEST_F(CalibrationStoreTest, EveryCutAndEveryMissingKeyCountsAsNotThere) {
  ASSERT_TRUE(store_.Save(kModel, Example()).ok());
  const std::string whole = ReadFile();
  const std::size_t length = whole.find_last_of('}');
  for (std::size_t cut = 0; cut <= length; cut += 7)
    ExpectUnusable(whole.substr(0, cut), "damaged");
  const json object = json::parse(whole);
  for (const auto& [key, value] : object.items()) {
    json lacking = object;
    lacking.erase(key);
    ExpectUnusable(lacking.dump(), "left out");
    lacking[key] = json::array({1});
    if (key != "rows") ExpectUnusable(lacking.dump(), "left out");
  }
  for (const auto& [key, value] : object["rows"][0].items()) {
    json lacking = object;
    lacking["rows"][0].erase(key);
    ExpectUnusable(lacking.dump(), "damaged");
    lacking["rows"][0][key] = -1;
    ExpectUnusable(lacking.dump(), "damaged");
  }
}

TEST_F(CalibrationStoreTest, ForeignFilesCountAsNotThere) {
  ASSERT_TRUE(store_.Save(kModel, Example()).ok());
  const json object = json::parse(ReadFile());
  json other = object;
  other["version"] = kCalibrationVersion + 1;
  ExpectUnusable(other.dump(), "another version");
  other = object;
  other["model"] = "ffff";
  ExpectUnusable(other.dump(), "another model");
  other = object;
  other["text_sha256"] = "ffff";
  ExpectUnusable(other.dump(), "another text");
  ExpectUnusable(std::string(5 << 20, '['), "damaged");
}

TEST_F(CalibrationStoreTest, ADamagedFileIsReplaced) {
  ASSERT_TRUE(store_.Save(kModel, Example()).ok());
  ASSERT_TRUE(WriteBytes(store_.PathOf(kModel), "{").ok());
  ASSERT_TRUE(store_.Save(kModel, Example()).ok());
  EXPECT_TRUE(store_.Load(kModel).ok());
}

TEST_F(CalibrationStoreTest, RowsOfTheSameMeasurementAddUp) {
  ASSERT_TRUE(store_.Save(kModel, Example()).ok());
  Calibration newer = Example();
  newer.rows = {Row("f16", 3e-6), Row("int4", 0.02)};
  ASSERT_TRUE(store_.Save(kModel, newer).ok());
  const Calibration loaded = store_.Load(kModel).value();
  ASSERT_EQ(loaded.rows.size(), 3U);
  EXPECT_EQ(loaded.Find("f16")->loss.mean_kld, 3e-6);
  EXPECT_EQ(loaded.Find("int8")->loss.mean_kld, 3e-4);
}

TEST_F(CalibrationStoreTest, RowsOfAnotherMeasurementGoButF16WeightsStay) {
  Calibration rough = Example();
  rough.weights = MeasuredWeights::kAsIs;
  ASSERT_TRUE(store_.Save(kModel, rough).ok());
  Calibration fine = Example();
  fine.rows = {Row("int4", 0.02)};
  ASSERT_TRUE(store_.Save(kModel, fine).ok());
  EXPECT_EQ(store_.Load(kModel)->rows.size(), 1U);
  ASSERT_TRUE(store_.Save(kModel, rough).ok());
  EXPECT_EQ(store_.Load(kModel)->weights, MeasuredWeights::kF16);
}

TEST_F(CalibrationStoreTest, AFolderThatTakesNoFilesIsAnErrorWithThePath) {
  const std::string file = directory_.FilePath("file");
  ASSERT_TRUE(WriteBytes(file, "x").ok());
  const CalibrationStore blocked(file);
  const Status status = blocked.Save(kModel, Example());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr(blocked.PathOf(kModel)));
}

TEST_F(CalibrationStoreTest, ManyWritersLeaveAWholeFileAndNothingElse) {
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([this, writer] {
      for (int i = 0; i < 25; ++i) {
        Calibration calibration = Example();
        calibration.rows = {Row("f16", 1e-6 * writer)};
        EXPECT_TRUE(store_.Save(kModel, calibration).ok());
        EXPECT_TRUE(store_.Load(kModel).ok());
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path() / "a/b")) {
    EXPECT_EQ(entry.path().string(), store_.PathOf(kModel));
    ++files;
  }
  EXPECT_EQ(files, 1);
}

}  // namespace
}  // namespace swiftkv
