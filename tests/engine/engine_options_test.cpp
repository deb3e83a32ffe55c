// SPDX-License-Identifier: Apache-2.0
// Tests which formats a cache may have at which level of quality.
#include "engine/engine_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/codec_table.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

TEST(CacheOptionsTest, ASideWithoutAFormatOfItsOwnTakesTheCommonOne) {
  CacheOptions options;
  options.format = "f32";
  options.value_format = "bf16";
  EXPECT_EQ(KeyFormatOf(options), "f32");
  EXPECT_EQ(ValueFormatOf(options), "bf16");
}

TEST(CacheOptionsTest, EveryFormatIsAllowedAtItsOwnGradeAndAtNoBetterOne) {
  for (const PageCodec* codec : AllCodecs()) {
    for (const Quality ceiling : {Quality::kExact, Quality::kNear, Quality::kAny}) {
      CacheOptions options;
      options.format = codec->info().name;
      options.quality = ceiling;
      EXPECT_EQ(ValidateCacheOptions(options).ok(), Serves(codec->info().quality, ceiling))
          << codec->info().name << " at " << QualityName(ceiling);
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

TEST(CacheOptionsTest, UnknownFormatsAndAutoAreRefusedWithTheList) {
  for (const char* name : {"auto", "q4_0", ""}) {
    CacheOptions options;
    options.format = name;
    const Status status = ValidateCacheOptions(options);
    EXPECT_FALSE(status.ok());
    for (const PageCodec* codec : AllCodecs()) {
      EXPECT_THAT(status.message(), HasSubstr(codec->info().name));
    }
  }
}

}  // namespace
}  // namespace swiftkv
