// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `bench model`.
#include "tools/bench_model_options.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/option_fields.h"

namespace swiftkv {
namespace {

TEST(BenchModelOptionsTest, EveryFlagReachesItsField) {
  const std::vector<const char*> arguments = {"--depths",  "1,2",   "--formats", "f16,int8/int4",
                                              "--batch",   "5",     "--shared",  "7",
                                              "--prefill", "11",    "--decode",  "13",
                                              "--rounds",  "17",    "--json",    "-m",
                                              "x.gguf",    "-t",    "2",         "--kv-memory",
                                              "1GiB",      "--isa", "portable"};
  const Result<BenchModelOptions> options = ParseBenchModelOptions(arguments);
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->depths, (NumberList{{1, 2}}));
  EXPECT_EQ(options->formats, (NameList{{"f16", "int8/int4"}}));
  EXPECT_EQ(options->batch, 5);
  EXPECT_EQ(options->shared_tokens, 7);
  EXPECT_EQ(options->prefill_tokens, 11);
  EXPECT_EQ(options->decode_tokens, 13);
  EXPECT_EQ(options->rounds, 17);
  EXPECT_TRUE(options->json);
  EXPECT_EQ(options->memory, (MemoryLimit{.automatic = false, .bytes = 1U << 30}));
  EXPECT_EQ(options->model.path, "x.gguf");
  EXPECT_EQ(options->model.threads, 2);
  EXPECT_EQ(options->model.isa, "portable");
}

TEST(BenchModelOptionsTest, FieldsHaveDistinctKeysAndFlags) {
  BenchModelOptions options;
  DistinctFields fields;
  VisitOptions(fields, options);
}

}  // namespace
}  // namespace swiftkv
