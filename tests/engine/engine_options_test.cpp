// SPDX-License-Identifier: Apache-2.0
// Tests which formats a cache may have at which level of quality.
#include "engine/engine_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/codec_table.h"
#include "formats/page_format_table.h"

namespace swiftkv {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

Result<PageFormat> FormatOf(const std::string& both, const std::string& keys,
                            const std::string& values) {
  CacheOptions options;
  options.format = both;
  options.key_format = keys;
  options.value_format = values;
  return PageFormatOf(options);
}

TEST(CacheOptionsTest, APlaneWithoutAFormatOfItsOwnTakesThePairs) {
  EXPECT_EQ(PageFormatName(FormatOf("f32", "", "bf16").value()), "f32/bf16");
  EXPECT_EQ(PageFormatName(FormatOf("k8v4", "", "").value()), "k8v4");
  EXPECT_EQ(PageFormatName(FormatOf("k8v4", "f16", "").value()), "f16/int4");
  EXPECT_EQ(PageFormatName(FormatOf("f16", "int8", "int4").value()), "k8v4");
}

TEST(CacheOptionsTest, EveryNamedPairIsTheFormatOfItsRow) {
  for (const NamedPageFormat& row : AllPageFormats()) {
    EXPECT_EQ(FormatOf(row.name, "", "").value(), row.format) << row.name;
    EXPECT_EQ(ParsePageFormat(row.name).value(), row.format) << row.name;
  }
}

TEST(CacheOptionsTest, ANamedPairIsNoFormatOfOnePlane) {
  const Result<PageFormat> format = FormatOf("f16", "k8v4", "");
  ASSERT_FALSE(format.ok());
  EXPECT_THAT(format.status().message(), HasSubstr(PlaneFormatChoices()));
  EXPECT_THAT(format.status().message(), EndsWith("got \"k8v4\""));
}

TEST(CacheOptionsTest, AnyTwoFormatsAreReadFromOneWord) {
  for (const PageCodec* key : AllCodecs()) {
    for (const PageCodec* value : AllCodecs()) {
      const std::string text = std::string(key->info().name) + "/" + value->info().name;
      EXPECT_EQ(ParsePageFormat(text).value(), (PageFormat{key, value})) << text;
    }
  }
  for (const char* text : {"", "/", "f16/", "/f16", "f16/f16/f16", "auto", "q8_0", "k8v4/f16"}) {
    EXPECT_FALSE(ParsePageFormat(text).ok()) << text;
  }
}

TEST(CacheOptionsTest, EveryFormatIsAllowedAtItsOwnGradeAndAtNoBetterOne) {
  for (const NamedPageFormat& row : AllPageFormats()) {
    for (const Quality ceiling : {Quality::kExact, Quality::kNear, Quality::kAny}) {
      CacheOptions options;
      options.format = row.name;
      options.quality = ceiling;
      EXPECT_EQ(ValidateCacheOptions(options).ok(), Serves(PageFormatQuality(row.format), ceiling))
          << row.name << " at " << QualityName(ceiling);
    }
  }
}

TEST(CacheOptionsTest, TheWorsePlaneDecides) {
  CacheOptions options;
  options.value_format = "bf16";
  EXPECT_TRUE(ValidateCacheOptions(options).ok());
  options.quality = Quality::kExact;
  EXPECT_THAT(ValidateCacheOptions(options).message(), HasSubstr("near"));
}

TEST(CacheOptionsTest, UnknownFormatsAreRefusedWithTheList) {
  for (const char* name : {"q4_0", "", "f16/f16"}) {
    CacheOptions options;
    options.format = name;
    const Status status = ValidateCacheOptions(options);
    EXPECT_FALSE(status.ok());
    for (const NamedPageFormat& row : AllPageFormats()) {
      EXPECT_THAT(status.message(), HasSubstr(row.name));
    }
  }
}

TEST(CacheOptionsTest, AutoLeavesBothPlanesToCalibrationOrNone) {
  CacheOptions options;
  options.format = kAutomaticFormat;
  EXPECT_TRUE(WantsAutomaticFormat(options));
  EXPECT_TRUE(ValidateCacheOptions(options).ok());
  EXPECT_FALSE(PageFormatOf(options).ok()) << "nothing is chosen yet";
  options.key_format = "int8";
  EXPECT_FALSE(WantsAutomaticFormat(options));
  EXPECT_THAT(ValidateCacheOptions(options).message(), HasSubstr("--kv auto"));
}

}  // namespace
}  // namespace swiftkv
