// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `plan`.
#include "tools/plan_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/option_fields.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

TEST(PlanOptionsTest, EveryFlagReachesItsField) {
  const std::vector<const char*> arguments = {
      "--preset",  "llama-3.1-8b", "--weights-type",   "q4_k_m", "--memory", "64GiB",
      "-c",        "8192",         "--batch",          "32",     "--prefix", "100",
      "--reserve", "16384",        "--formats",        "int8",   "--ratio",  "0.25,0.5",
      "--policy",  "sink_recent",  "--price-per-hour", "1.5",    "--tps",    "300",
      "--json"};
  const Result<PlanOptions> options = ParsePlanOptions(arguments);
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->preset, "llama-3.1-8b");
  EXPECT_EQ(options->weights_type, "q4_k_m");
  EXPECT_EQ(options->memory, (MemoryLimit{.automatic = false, .bytes = std::uint64_t{64} << 30}));
  EXPECT_EQ(options->context, 8192);
  EXPECT_EQ(options->batch, 32);
  EXPECT_EQ(options->prefix, 100);
  EXPECT_EQ(options->reserve, 16384);
  EXPECT_EQ(options->formats, (NameList{{"int8"}}));
  EXPECT_EQ(ParseRatios(options->ratios).value(), (std::vector<double>{0, 0.25, 0.5}));
  EXPECT_EQ(options->policy, "sink_recent");
  EXPECT_EQ(options->price_per_hour, 1.5F);
  EXPECT_EQ(options->tokens_per_second, 300.0F);
  EXPECT_TRUE(options->json);
}

TEST(PlanOptionsTest, FieldsHaveDistinctKeysAndFlags) {
  PlanOptions options;
  DistinctFields fields;
  VisitOptions(fields, options);
}

TEST(PlanOptionsTest, WhatCanNeverWorkIsRefusedWithWhatIsAccepted) {
  struct Case {
    std::vector<const char*> arguments;
    const char* part;
  };
  for (const Case& refused :
       std::vector<Case>{{{"--preset", "nonsense"}, "smollm2-135m"},
                         {{"--preset", "phi-4", "-m", "x.gguf"}, "one model"},
                         {{"-m", "x.gguf", "--weights-type", "q8_0"}, "--config and --preset"},
                         {{"--preset", "phi-4", "--weights-type", "q9"}, "q4_k_m"},
                         {{"--preset", "phi-4", "--ratio", "1"}, "below 1"},
                         {{"--preset", "phi-4", "--ratio", "nan"}, "below 1"},
                         {{"--preset", "phi-4", "--ratio", "-0.5"}, "below 1"},
                         {{"--preset", "phi-4", "--policy", "magic"}, "sink_recent"},
                         {{"--preset", "phi-4", "--formats", "int3"}, "int8"},
                         {{"--preset", "phi-4", "--tps", "-1"}, "--tps"},
                         {{"--preset", "phi-4", "--price-per-hour", "inf"}, "a number"},
                         {{"--preset", "phi-4", "--batch", "0"}, "--batch"},
                         {{"--preset", "phi-4", "--memory", "0"}, "--memory"},
                         {{"--preset", "phi-4", "-c", "4294967296"}, "--context"}}) {
    const Result<PlanOptions> options = ParsePlanOptions(refused.arguments);
    ASSERT_FALSE(options.ok()) << refused.part;
    EXPECT_THAT(options.status().message(), HasSubstr(refused.part));
  }
}

}  // namespace
}  // namespace swiftkv
