// SPDX-License-Identifier: Apache-2.0
// Tests the command line of `run`: every flag reaches its field, and nonsense is one sentence.
#include "tools/run_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tools/options_json.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

Result<RunOptions> Parse(std::vector<const char*> arguments) { return ParseRunOptions(arguments); }

// Collects every field, to walk them all.
struct FieldCollector {
  void Group(const char*) {}
  template <typename T>
  void operator()(const OptionField& field, T&) {
    fields.push_back(field);
  }
  std::vector<OptionField> fields;
};

std::vector<OptionField> AllFields() {
  RunOptions options;
  FieldCollector collector;
  VisitOptions(collector, options);
  return collector.fields;
}

nlohmann::ordered_json Dump(RunOptions options) {
  JsonVisitor visitor;
  VisitOptions(visitor, options);
  return visitor.object();
}

TEST(RunOptionsTest, DefaultsAreWhatTheHelpSays) {
  const Result<RunOptions> options = Parse({});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->model.context, 0);
  EXPECT_EQ(options->generation.max_tokens, -1);
  EXPECT_EQ(options->cache.format, "f16");
  EXPECT_TRUE(options->cache.memory.automatic);
  EXPECT_FLOAT_EQ(options->sampling.temperature, 0.8F);
  EXPECT_FALSE(options->sampling.seed.has_value());
  EXPECT_TRUE(options->model.use_repacked_weights);
}

TEST(RunOptionsTest, EveryFlagReachesItsField) {
  const Result<RunOptions> options =
      Parse({"-m",          "x.gguf",      "-c",           "4096",     "-t",           "3",
             "--kv-memory", "64MiB",       "-p",           "-hello",   "-n",           "7",
             "--temp",      "0",           "--seed",       "42",       "--kv",         "f32",
             "--kv-v",      "bf16",        "--quality",    "near",     "--system",     "Be brief.",
             "--json",      "--no-repack", "--isa",        "portable", "--attention",  "reference",
             "--top-k",     "5",           "--logit-bias", "1=2",      "--logit-bias", "3=-inf",
             "--chunk",     "17",          "--force"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->model.path, "x.gguf");
  EXPECT_EQ(options->model.context, 4096);
  EXPECT_EQ(options->model.threads, 3);
  EXPECT_EQ(options->model.max_batch_rows, 17);
  EXPECT_EQ(options->model.isa, "portable");
  EXPECT_EQ(options->model.attention_backend, "reference");
  EXPECT_FALSE(options->model.use_repacked_weights);
  EXPECT_EQ(options->cache.memory, (MemoryLimit{.automatic = false, .bytes = 64U << 20}));
  EXPECT_EQ(PageFormatName(PageFormatOf(options->cache).value()), "f32/bf16");
  EXPECT_TRUE(options->cache.force);
  EXPECT_EQ(options->cache.quality, Quality::kNear);
  EXPECT_EQ(options->prompt.text, "-hello");
  EXPECT_EQ(options->prompt.system, "Be brief.");
  EXPECT_EQ(options->generation.max_tokens, 7);
  EXPECT_EQ(options->sampling.temperature, 0.0F);
  EXPECT_EQ(options->sampling.seed, 42U);
  EXPECT_EQ(options->sampling.top_k, 5);
  ASSERT_EQ(options->sampling.logit_bias.size(), 2U);
  EXPECT_EQ(options->sampling.logit_bias[1].token, 3);
  EXPECT_TRUE(options->output.json);
}

TEST(RunOptionsTest, WhatIsForgottenIsNamedByThreeFlags) {
  const Result<RunOptions> ratio = Parse({"--policy", "sink_recent:sinks=8", "--ratio", "0.3"});
  ASSERT_TRUE(ratio.ok()) << ratio.status().message();
  EXPECT_EQ(ratio->forgetting.policy, "sink_recent:sinks=8");
  EXPECT_EQ(ratio->forgetting.ratio, 0.3);
  EXPECT_EQ(Dump(*ratio)["ratio"].dump(), "0.3");
  const Result<RunOptions> budget = Parse({"--policy", "keydiff", "--kv-budget", "64MiB"});
  ASSERT_TRUE(budget.ok()) << budget.status().message();
  EXPECT_EQ(budget->forgetting.budget, "64MiB");
  EXPECT_FALSE(ForgettingOf(Parse({})->forgetting).has_value());
  EXPECT_FALSE(ForgettingOf(Parse({"--policy", "none"})->forgetting).has_value());
}

TEST(RunOptionsTest, TheLastUseOfAFlagWins) {
  const Result<RunOptions> options = Parse({"-n", "1", "-n", "2", "--json", "--json"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->generation.max_tokens, 2);
}

TEST(RunOptionsTest, AListGivenByFlagReplacesTheDefaultList) {
  const Result<RunOptions> options = Parse({"--dry-sequence-breaker", "."});
  ASSERT_TRUE(options.ok());
  EXPECT_THAT(options->sampling.dry_sequence_breakers, testing::ElementsAre("."));
  EXPECT_EQ(Parse({})->sampling.dry_sequence_breakers.size(), 4U);
}

TEST(RunOptionsTest, OddPromptsAreTakenAsTheyAre) {
  for (const char* prompt : {"", "--version", "[a,b]", "a,b", "{}", " ", "-", "é\n"}) {
    const Result<RunOptions> options = Parse({"-p", prompt});
    ASSERT_TRUE(options.ok()) << prompt << ": " << options.status().message();
    EXPECT_EQ(options->prompt.text, prompt);
    const std::string joined = std::string("--prompt=") + prompt;
    if (*prompt == '\0') continue;
    EXPECT_EQ(Parse({joined.c_str()})->prompt.text, prompt);
  }
}

TEST(RunOptionsTest, HelpIsNotAnError) {
  const Result<RunOptions> options = Parse({"--help"});
  ASSERT_EQ(options.status().code(), StatusCode::kCancelled);
  for (const OptionField& field : AllFields()) {
    EXPECT_THAT(options.status().message(), HasSubstr(field.flags));
  }
}

TEST(RunOptionsTest, FieldsHaveDistinctKeysAndFlags) {
  std::set<std::string> keys;
  std::set<std::string> flags;
  for (const OptionField& field : AllFields()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_TRUE(flags.insert(field.flags).second) << field.flags;
    EXPECT_NE(std::string(field.help).back(), '.') << field.key;
  }
}

TEST(RunOptionsTest, TheDumpShowsEveryField) {
  const nlohmann::ordered_json dump = Dump(*Parse({"--kv-memory", "2KiB", "--top-p", "0.9"}));
  EXPECT_EQ(dump.size(), AllFields().size());
  EXPECT_EQ(dump["kv_memory"], 2048);
  EXPECT_EQ(dump["top_p"].dump(), "0.9");
  EXPECT_TRUE(dump["seed"].is_null());
}

struct BadCommandLine {
  std::vector<const char*> arguments;
  const char* says;  // part of the message
};

class BadRunOptionsTest : public testing::TestWithParam<BadCommandLine> {};

TEST_P(BadRunOptionsTest, IsRefusedInOneSentenceBeforeAnythingIsLoaded) {
  const Result<RunOptions> options = Parse(GetParam().arguments);
  ASSERT_FALSE(options.ok());
  EXPECT_NE(options.status().code(), StatusCode::kCancelled);
  const std::string& message = options.status().message();
  EXPECT_THAT(message, HasSubstr(GetParam().says));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadRunOptionsTest,
    testing::Values(BadCommandLine{{"--bogus"}, "\"--bogus\""}, BadCommandLine{{"-Z"}, "\"-Z\""},
                    BadCommandLine{{"hello"}, "unexpected argument"},
                    BadCommandLine{{"-c"}, "a value must follow --context"},
                    BadCommandLine{{"-c", "many"}, "--context accepts"},
                    BadCommandLine{{"-c", "-1"}, "--context accepts"},
                    BadCommandLine{{"-n", "-2"}, "--max-tokens accepts"},
                    BadCommandLine{{"-t", "5000"}, "--threads accepts"},
                    BadCommandLine{{"--chunk", "65537"}, "--chunk accepts"},
                    BadCommandLine{{"--temp", "hot"}, "--temp accepts"},
                    BadCommandLine{{"--seed", "x"}, "--seed accepts"},
                    BadCommandLine{{"--kv", "int3"}, "f16"},
                    BadCommandLine{{"--kv", "auto", "--kv-k", "int8"}, "--kv auto"},
                    BadCommandLine{{"--kv-k", "q8_0"}, "q8_0"},
                    BadCommandLine{{"--kv-memory", "lots"}, "--kv-memory accepts"},
                    BadCommandLine{{"--kv-memory", "0"}, "--kv-memory accepts"},
                    BadCommandLine{{"--quality", "good"}, "--quality accepts"},
                    BadCommandLine{{"--kv", "bf16", "--quality", "exact"}, "near"},
                    BadCommandLine{{"--isa", "sse1"}, "sse1"},
                    BadCommandLine{{"--attention", "gpu"}, "gpu"},
                    BadCommandLine{{"-p", "a", "-f", "b"}, "-p and -f"},
                    BadCommandLine{{"--raw", "-i"}, "--raw"},
                    BadCommandLine{{"--raw", "--system", "x"}, "--raw"},
                    BadCommandLine{{"--grammar", "x", "--json-schema", "{}"}, "grammar"},
                    BadCommandLine{{"--json=maybe"}, "json"}));

}  // namespace
}  // namespace swiftkv
