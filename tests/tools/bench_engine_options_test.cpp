// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `bench engine`.
#include "tools/bench_engine_options.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/option_fields.h"

namespace swiftkv {
namespace {

TEST(BenchEngineOptionsTest, EveryFlagReachesItsField) {
  const std::vector<const char*> arguments = {
      "--requests", "3",    "--shared", "5",           "--own",         "7",     "--new",   "11",
      "--formats",  "bf16", "--rounds", "13",          "--late-prompt", "17",    "--json",  "-m",
      "x.gguf",     "-t",   "2",        "--kv-memory", "1GiB",          "--isa", "portable"};
  const Result<BenchEngineOptions> options = ParseBenchEngineOptions(arguments);
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->requests, 3);
  EXPECT_EQ(options->shared_tokens, 5);
  EXPECT_EQ(options->own_tokens, 7);
  EXPECT_EQ(options->new_tokens, 11);
  EXPECT_EQ(options->formats, (NameList{{"bf16"}}));
  EXPECT_EQ(options->rounds, 13);
  EXPECT_EQ(options->late_prompt, 17);
  EXPECT_TRUE(options->json);
  EXPECT_EQ(options->memory, (MemoryLimit{.automatic = false, .bytes = 1U << 30}));
  EXPECT_EQ(options->model.path, "x.gguf");
  EXPECT_EQ(options->model.threads, 2);
  EXPECT_EQ(options->model.isa, "portable");
}

TEST(BenchEngineOptionsTest, FieldsHaveDistinctKeysAndFlags) {
  BenchEngineOptions options;
  DistinctFields fields;
  VisitOptions(fields, options);
}

}  // namespace
}  // namespace swiftkv
