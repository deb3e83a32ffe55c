// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `bench waste`.
#include "tools/bench_waste_options.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/option_fields.h"

namespace swiftkv {
namespace {

TEST(BenchWasteOptionsTest, EveryFlagReachesItsField) {
  const std::vector<const char*> arguments = {
      "--lengths", "fixed:77",    "--batch",       "3",     "--requests", "11",
      "--seed",    "5",           "--allocators",  "paged", "--geometry", "llama-3.1-8b,smollm2",
      "--formats", "f16,k8v4",    "--block-sizes", "16,48", "--json",     "--svg",
      "x.svg",     "--kv-memory", "1GiB"};
  const Result<BenchWasteOptions> options = ParseBenchWasteOptions(arguments);
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->lengths, "fixed:77");
  EXPECT_EQ(options->batch, 3);
  EXPECT_EQ(options->requests, 11);
  EXPECT_EQ(options->seed, 5);
  EXPECT_EQ(options->allocators, (NameList{{"paged"}}));
  EXPECT_EQ(options->geometries, (NameList{{"llama-3.1-8b", "smollm2"}}));
  EXPECT_EQ(options->formats, (NameList{{"f16", "k8v4"}}));
  EXPECT_EQ(options->block_sizes, (NumberList{{16, 48}}));
  EXPECT_EQ(options->memory, (MemoryLimit{.automatic = false, .bytes = 1U << 30}));
  EXPECT_TRUE(options->json);
  EXPECT_EQ(options->svg, "x.svg");
}

TEST(BenchWasteOptionsTest, FieldsHaveDistinctKeysAndFlags) {
  BenchWasteOptions options;
  DistinctFields fields;
  VisitOptions(fields, options);
}

TEST(BenchWasteOptionsTest, ABatchThatTheQueueCannotFillIsRefused) {
  const std::vector<const char*> arguments = {"--batch", "20", "--requests", "19"};
  const Result<BenchWasteOptions> options = ParseBenchWasteOptions(arguments);
  ASSERT_FALSE(options.ok());
  EXPECT_EQ(options.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(options.status().message().ends_with("got 19")) << options.status().message();
}

TEST(BenchWasteOptionsTest, ShapesAreThoseOfTheModels) {
  const auto shapes = ListCacheShapes({{"all"}});
  ASSERT_TRUE(shapes.ok());
  ASSERT_EQ(shapes->size(), 3U);
  const std::vector<std::uint64_t> f16_bytes_per_token = {23040, 131072, 327680};
  for (std::size_t i = 0; i < shapes->size(); ++i) {
    std::uint64_t bytes = 0;
    for (const LayerShape& layer : LayersOf((*shapes)[i])) {
      bytes += 2ULL * 2 * static_cast<std::uint64_t>(layer.kv_heads * layer.head_dim);
    }
    EXPECT_EQ(bytes, f16_bytes_per_token[i]) << (*shapes)[i].name;
  }
}

}  // namespace
}  // namespace swiftkv
