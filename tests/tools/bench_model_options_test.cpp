// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `bench model`.
#include "tools/bench_model_options.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace swiftkv {
namespace {

struct FieldCollector {
  void Group(const char*) {}
  template <typename T>
  void operator()(const OptionField& field, T&) {
    fields.push_back(field);
  }
  std::vector<OptionField> fields;
};

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
  FieldCollector collector;
  VisitOptions(collector, options);
  std::set<std::string> keys;
  std::set<std::string> flags;
  for (const OptionField& field : collector.fields) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_TRUE(flags.insert(field.flags).second) << field.flags;
  }
}

}  // namespace
}  // namespace swiftkv
