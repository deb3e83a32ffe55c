// SPDX-License-Identifier: Apache-2.0
// Tests the values of flags: what parses, and that an error names flag, choice and value.
#include "tools/flag_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace swiftkv {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr OptionField kField{"-c,--context", "context", "TOKENS", "Help", 0, 4096};

template <typename T>
std::string ErrorOf(const std::string& text) {
  T value{};
  return ParseFlagValue(kField, text, &value).message();
}

TEST(FlagValuesTest, LongNamesStandForTheirFlag) {
  EXPECT_EQ(FlagName({"-c,--context", "", "", ""}), "--context");
  EXPECT_EQ(FlagName({"--temp,--temperature", "", "", ""}), "--temp");
  EXPECT_EQ(FlagName({"-x", "", "", ""}), "-x");
}

TEST(FlagValuesTest, WholeNumbersAreReadWithinTheirRange) {
  int value = -1;
  ASSERT_TRUE(ParseFlagValue(kField, "4096", &value).ok());
  EXPECT_EQ(value, 4096);
  for (const char* bad : {"", "4097", "-1", "12a", "1.5", "0x10", " 7", "99999999999999999999"}) {
    EXPECT_THAT(ErrorOf<int>(bad), AllOf(StartsWith("--context accepts"), HasSubstr("0 to 4096"),
                                         EndsWith("got \"" + std::string(bad) + "\"")));
  }
}

TEST(FlagValuesTest, NumbersAreFiniteAndWhole) {
  float value = 0;
  ASSERT_TRUE(ParseFlagValue(kField, "-1.5e-1", &value).ok());
  EXPECT_FLOAT_EQ(value, -0.15F);
  for (const char* bad : {"", "nan", "inf", "1,5", "1.5x", "1e99"}) {
    EXPECT_THAT(ErrorOf<float>(bad), HasSubstr("accepts a number"));
  }
}

TEST(FlagValuesTest, MemoryIsASizeOrAuto) {
  MemoryLimit value;
  ASSERT_TRUE(ParseFlagValue(kField, "1.5GiB", &value).ok());
  EXPECT_FALSE(value.automatic);
  EXPECT_EQ(value.bytes, 1610612736U);
  ASSERT_TRUE(ParseFlagValue(kField, "auto", &value).ok());
  EXPECT_TRUE(value.automatic);
  for (const char* bad : {"", "0", "-1", "12parsecs", "Auto"}) {
    EXPECT_THAT(ErrorOf<MemoryLimit>(bad), HasSubstr("512MiB"));
  }
}

TEST(FlagValuesTest, QualityLevelsAreNamed) {
  std::optional<Quality> value;
  ASSERT_TRUE(ParseFlagValue(kField, "near", &value).ok());
  EXPECT_EQ(value, Quality::kNear);
  EXPECT_THAT(ErrorOf<std::optional<Quality>>("best"), HasSubstr("exact, near or any"));
}

TEST(FlagValuesTest, SeedsTakeAll64Bits) {
  std::optional<std::uint64_t> value;
  ASSERT_TRUE(ParseFlagValue(kField, "18446744073709551615", &value).ok());
  EXPECT_EQ(value, 18446744073709551615U);
  EXPECT_THAT(ErrorOf<std::optional<std::uint64_t>>("-1"), HasSubstr("2^64 - 1"));
}

TEST(FlagValuesTest, ListsHaveCommasBetweenAndCountEachValueOnce) {
  NumberList numbers{{5}};
  ASSERT_TRUE(ParseFlagValue(kField, "0,4096,7,0", &numbers).ok());
  EXPECT_EQ(numbers, (NumberList{{0, 4096, 7}}));
  EXPECT_EQ(FormatFlagValue(numbers), "0,4096,7");
  for (const char* bad : {"", ",", "1,", ",1", "1,,2", "1;2", "1, 2", "1,4097", "x"}) {
    EXPECT_THAT(ErrorOf<NumberList>(bad), AllOf(HasSubstr("from 0 to 4096 with commas between"),
                                                EndsWith("got \"" + std::string(bad) + "\"")));
  }
  NameList names{{"old"}};
  ASSERT_TRUE(ParseFlagValue(kField, "f16,int8/int4,f16", &names).ok());
  EXPECT_EQ(names, (NameList{{"f16", "int8/int4"}}));
  EXPECT_EQ(FormatFlagValue(names), "f16,int8/int4");
  for (const char* bad : {"", ",", "f16,", "f16,,bf16"}) {
    EXPECT_THAT(ErrorOf<NameList>(bad), HasSubstr("names with commas between"));
  }
}

TEST(FlagValuesTest, LogitBiasesNameATokenAndANumberOrForbidIt) {
  LogitBias value;
  ASSERT_TRUE(ParseFlagValue(kField, "17=-2.5", &value).ok());
  EXPECT_EQ(value.token, 17);
  EXPECT_FLOAT_EQ(value.bias, -2.5F);
  ASSERT_TRUE(ParseFlagValue(kField, "3=-inf", &value).ok());
  EXPECT_TRUE(std::isinf(value.bias));
  for (const char* bad : {"", "17", "=1", "17=", "a=1", "17=x", "17:1"}) {
    EXPECT_THAT(ErrorOf<LogitBias>(bad), HasSubstr("TOKEN=BIAS"));
  }
}

TEST(FlagValuesTest, HostileValuesAreQuotedOnOneShortLine) {
  const std::string error = ErrorOf<int>("1\n\x1b[2J" + std::string(500, 'x'));
  EXPECT_EQ(error.find('\n'), std::string::npos);
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
  EXPECT_LT(error.size(), 150U);
}

TEST(FlagValuesTest, ShownValuesParseBack) {
  const MemoryLimit limit{.automatic = false, .bytes = 12345};
  MemoryLimit parsed;
  ASSERT_TRUE(ParseFlagValue(kField, FormatFlagValue(limit), &parsed).ok());
  EXPECT_EQ(parsed, limit);
  float number = 0;
  ASSERT_TRUE(ParseFlagValue(kField, FormatFlagValue(0.95F), &number).ok());
  EXPECT_EQ(number, 0.95F);
}

}  // namespace
}  // namespace swiftkv
