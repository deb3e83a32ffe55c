// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `bench capacity`.
#include "tools/bench_capacity_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace swiftkv {
namespace {

using testing::HasSubstr;

TEST(BenchCapacityOptionsTest, EveryFlagReachesItsField) {
  const std::vector<const char*> arguments = {"--lengths",
                                              "fixed:9",
                                              "--requests",
                                              "5",
                                              "--shared",
                                              "7",
                                              "--seed",
                                              "3",
                                              "--reservations",
                                              "1,3",
                                              "--allocators",
                                              "paged",
                                              "--formats",
                                              "bf16,int8/f16",
                                              "--max-length",
                                              "512",
                                              "--batch",
                                              "11",
                                              "--json",
                                              "-m",
                                              "x.gguf",
                                              "-t",
                                              "2"};
  const Result<BenchCapacityOptions> options = ParseBenchCapacityOptions(arguments);
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->lengths, "fixed:9");
  EXPECT_EQ(options->requests, 5);
  EXPECT_EQ(options->shared_tokens, 7);
  EXPECT_EQ(options->seed, 3);
  EXPECT_EQ(options->reservations, (NumberList{{1, 3}}));
  EXPECT_EQ(options->allocators, (NameList{{"paged"}}));
  EXPECT_EQ(options->formats, (NameList{{"bf16", "int8/f16"}}));
  EXPECT_EQ(options->max_length, 512);
  EXPECT_EQ(options->batch, 11);
  EXPECT_TRUE(options->json);
  EXPECT_EQ(options->model.path, "x.gguf");
  EXPECT_EQ(options->model.threads, 2);
  EXPECT_EQ(options->model.context, 512) << "a reservation of the greatest length is a context";
}

TEST(BenchCapacityOptionsTest, WhatCannotBeMeasuredIsRefusedByName) {
  const std::vector<std::vector<const char*>> bad = {
      {"--lengths", "long"},      {"--allocators", "paged,buddy"},
      {"--formats", "int9"},      {"--reservations", "0"},
      {"--max-length", "1"},      {"--shared", "511", "--max-length", "512"},
      {"--reservations", "1,,2"}, {"--requests", "0"}};
  for (const std::vector<const char*>& arguments : bad) {
    const Result<BenchCapacityOptions> options = ParseBenchCapacityOptions(arguments);
    ASSERT_FALSE(options.ok()) << arguments[0];
    EXPECT_EQ(options.status().code(), StatusCode::kInvalidArgument);
  }
  const std::vector<const char*> unknown = {"--allocators", "buddy"};
  EXPECT_THAT(
      ParseBenchCapacityOptions(unknown).status().message(),
      HasSubstr("contiguous_max, contiguous_pow2, contiguous_exact, paged, all, not: buddy"));
}

}  // namespace
}  // namespace swiftkv
