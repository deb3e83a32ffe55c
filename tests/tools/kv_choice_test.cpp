// SPDX-License-Identifier: Apache-2.0
// Tests what format a cache gets and what the user is told, from figures that were made up.
#include "tools/kv_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "tools/calibration_text.h"

namespace swiftkv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Mean KLD of every format, as a measurement would find it.
double MadeUpLoss(const std::string& format) {
  if (format == "int4") return 0.2;
  if (format == "k8v4") return 0.005;
  if (format == "fp8_e5m2") return 0.05;
  return format == "f16" ? 2e-6 : 1e-3;
}

std::uint64_t MadeUpBytes(const std::string& format) {
  if (format == "int4") return 425;
  if (format == "k8v4") return 625;
  return format == "f16" ? 1600 : 825;
}

class KvChoiceTest : public testing::Test {
 protected:
  void SetUp() override {
    task_.model.path = WriteTinyGguf(TinyModelNamed("llama_gqa3_d64"), directory_.path()).value();
    task_.model.attention_backend = "reference";  // serves every format
    task_.store = &store_;
    task_.tell = [this](const std::string& sentence) { told_.push_back(sentence); };
    task_.measure = [this](const MeasurementTask& task) { return Measure(task); };
  }

  Result<Measurement> Measure(const MeasurementTask& task) {
    EXPECT_EQ(task.text, CalibrationText());
    Measurement measurement;
    measurement.fingerprint = "unused";
    measurement.weights = weights_;
    measurement.report.context = 2048;
    measurement.report.chunk = 128;
    measured_.clear();
    for (const PageFormat& format : task.formats) {
      FormatQuality row;
      row.format = PageFormatName(format);
      row.loss.mean_kld = MadeUpLoss(row.format);
      row.bytes = MadeUpBytes(row.format);
      measured_.push_back(row.format);
      measurement.report.rows.push_back(row);
    }
    ++measurements_;
    return measurement;
  }

  Result<KvChoice> Choose(const std::string& format) {
    told_.clear();
    task_.cache.format = format;
    return ChooseKvFormat(task_);
  }

  // Returns the chosen format's name.
  std::string Chosen(const std::string& format) {
    const Result<KvChoice> choice = Choose(format);
    EXPECT_TRUE(choice.ok()) << choice.status().message();
    return choice.ok() ? PageFormatName(choice->format) : "none";
  }

  TempDirectory directory_;
  CalibrationStore store_{directory_.FilePath("calibration")};
  KvChoiceTask task_;
  MeasuredWeights weights_ = MeasuredWeights::kF16;
  std::vector<std::string> told_;
  std::vector<std::string> measured_;  // formats of the last measurement
  int measurements_ = 0;
};

TEST_F(KvChoiceTest, AutoMeasuresOnceAndTakesTheSmallestFineFormat) {
  const Result<KvChoice> choice = Choose("auto");
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(PageFormatName(choice->format), "k8v4");
  EXPECT_TRUE(choice->is_automatic);
  EXPECT_EQ(choice->mean_kld, 0.005);
  EXPECT_THAT(measured_, ElementsAre("f16", "fp8_e4m3", "fp8_e5m2", "int8", "k8v4", "int4"));
  ASSERT_THAT(told_, SizeIs(2));
  EXPECT_THAT(told_[0], HasSubstr("k8v4"));
  EXPECT_THAT(told_[1], HasSubstr(" s;"));
  EXPECT_EQ(Chosen("auto"), "k8v4");
  EXPECT_EQ(measurements_, 1);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(KvChoiceTest, AutoStaysWithinTheCeiling) {
  task_.cache.quality = Quality::kNear;
  EXPECT_EQ(Chosen("auto"), "fp8_e4m3") << "int8 is as small and as good, and comes later";
  EXPECT_THAT(measured_, ElementsAre("f16", "fp8_e4m3", "fp8_e5m2", "int8"));
  task_.cache.quality = Quality::kExact;
  EXPECT_EQ(Chosen("auto"), "f16");
  EXPECT_EQ(measurements_, 1);
  task_.cache.quality.reset();
  EXPECT_EQ(Chosen("auto"), "k8v4");
  EXPECT_THAT(measured_, ElementsAre("f16", "k8v4", "int4")) << "what is known stays";
}

TEST_F(KvChoiceTest, AutoFallsBackToF16) {
  task_.measure = [this](const MeasurementTask& task) {
    Result<Measurement> measurement = Measure(task);
    for (FormatQuality& row : measurement->report.rows) {
      if (row.format != "f16") row.loss.mean_kld = 1;
    }
    return measurement;
  };
  EXPECT_EQ(Chosen("auto"), "f16");
}

TEST_F(KvChoiceTest, AFailedMeasurementIsAnError) {
  task_.measure = [](const MeasurementTask&) -> Result<Measurement> {
    return Status::Cancelled("stopped");
  };
  EXPECT_EQ(Choose("auto").status().code(), StatusCode::kCancelled);
}

TEST_F(KvChoiceTest, WideFormatsAreTakenWithoutLookingAtTheModel) {
  task_.model.path = "absent";
  for (const char* format : {"f16", "bf16", "f32"}) EXPECT_EQ(Chosen(format), format);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(KvChoiceTest, AnUnknownLossIsToldAndNotMeasured) {
  EXPECT_EQ(Chosen("int8"), "int8");
  EXPECT_EQ(measurements_, 0);
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0], HasSubstr("swiftkv eval"));
  EXPECT_THAT(told_[0], HasSubstr("int8"));
}

TEST_F(KvChoiceTest, KnownLossesAreSilentToldOrRefused) {
  ASSERT_EQ(Chosen("auto"), "k8v4");
  EXPECT_EQ(Choose("int8")->mean_kld, 1e-3);
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_EQ(Chosen("fp8_e5m2"), "fp8_e5m2");
  ASSERT_THAT(told_, SizeIs(1));
  EXPECT_THAT(told_[0], HasSubstr("0.05"));
  const Result<KvChoice> refused = Choose("int4");
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  for (const char* part : {"0.2", "0.1", "--force", "int4"}) {
    EXPECT_THAT(refused.status().message(), HasSubstr(part));
  }
  task_.cache.force = true;
  EXPECT_EQ(Chosen("int4"), "int4");
  EXPECT_THAT(told_, SizeIs(1));
}

TEST_F(KvChoiceTest, TheNoiseOfRoundedWeightsIsTakenOff) {
  weights_ = MeasuredWeights::kAsIs;
  task_.measure = [this](const MeasurementTask& task) {
    Result<Measurement> measurement = Measure(task);
    for (FormatQuality& row : measurement->report.rows) row.loss.mean_kld += 0.19;
    return measurement;
  };
  EXPECT_EQ(Chosen("auto"), "k8v4");
  EXPECT_EQ(Chosen("int8"), "int8");
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(KvChoiceTest, TheChoiceReachesBothPlanes) {
  CacheOptions cache;
  cache.format = kAutomaticFormat;
  Apply(*Choose("auto"), &cache);
  EXPECT_EQ(PageFormatName(PageFormatOf(cache).value()), "k8v4");
  EXPECT_TRUE(ValidateCacheOptions(cache).ok());
}

TEST_F(KvChoiceTest, AFileThatIsNoModelIsAnErrorForLossyFormats) {
  task_.model.path = directory_.FilePath("absent.gguf");
  EXPECT_EQ(Choose("int8").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Choose("auto").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace swiftkv
