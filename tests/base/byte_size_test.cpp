// SPDX-License-Identifier: Apache-2.0
// Checks how sizes are read and written.
#include "base/byte_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swiftkv {
namespace {

std::uint64_t Parsed(std::string_view text) {
  const auto result = ParseByteSize(text);
  EXPECT_TRUE(result.ok()) << text << ": " << result.status().message();
  return result.ok() ? *result : 0;
}

TEST(ByteSizeTest, UnitsNamePowersOf1024AndDecimalOnesPowersOf1000) {
  EXPECT_EQ(Parsed("0"), 0U);
  EXPECT_EQ(Parsed("4096"), 4096U);
  EXPECT_EQ(Parsed("17B"), 17U);
  EXPECT_EQ(Parsed("3k"), 3072U);
  EXPECT_EQ(Parsed("512MiB"), 536870912U);
  EXPECT_EQ(Parsed("512 mib"), 536870912U);
  EXPECT_EQ(Parsed("4G"), 4294967296U);
  EXPECT_EQ(Parsed("2T"), 2199023255552U);
  EXPECT_EQ(Parsed("4GB"), 4000000000U);
  EXPECT_EQ(Parsed("9007199254740991"), 9007199254740991U);
}

TEST(ByteSizeTest, FractionsAreRoundedDownToWholeBytes) {
  EXPECT_EQ(Parsed("1.5GiB"), 1610612736U);
  EXPECT_EQ(Parsed("0.3k"), 307U);
}

TEST(ByteSizeTest, AnythingElseIsRefusedByNameWithWhatWouldBeAccepted) {
  for (const char* bad :
       {"", " 1G", "-1", "+1", "1e9", "G", "1 ", "1Gi", "1X", "1G1", "0x10", "nan", "inf", ".5G",
        "1..5G", "9223372036854775808", "99999999999T", "1,5G"}) {
    const auto result = ParseByteSize(bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(result.status().message(), testing::HasSubstr("512MiB"));
    EXPECT_THAT(result.status().message(), testing::EndsWith("\"" + std::string(bad) + "\""));
  }
}

TEST(ByteSizeTest, PeopleReadThreeDigitsAndABinaryUnit) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1024), "1.00 KiB");
  EXPECT_EQ(FormatByteSize(23040), "22.5 KiB");
  EXPECT_EQ(FormatByteSize(536870912), "512 MiB");
  EXPECT_EQ(FormatByteSize(1610612736), "1.50 GiB");
  EXPECT_EQ(FormatByteSize(1048575), "1.00 MiB");
  EXPECT_EQ(FormatByteSize(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace swiftkv
