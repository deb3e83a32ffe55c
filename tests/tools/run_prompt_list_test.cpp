// SPDX-License-Identifier: Apache-2.0
// Tests the file of `run --prompts`: plain lines, JSON lines with options, and what is refused.
#include "tools/run_prompt_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST(RunPromptListTest, PlainLinesArePromptsWithTheOptionsOfTheCommandLine) {
  RunOptions options;
  options.generation.max_tokens = 7;
  options.prompt.system = "be brief";
  const auto items = ParsePromptList("one\n\n  \ntwo {x}\r\nthree", options);
  ASSERT_TRUE(items.ok()) << items.status().message();
  ASSERT_THAT(*items, SizeIs(3));
  EXPECT_EQ((*items)[0].prompt, "one");
  EXPECT_EQ((*items)[1].prompt, "two {x}");
  EXPECT_EQ((*items)[2].prompt, "three");
  EXPECT_EQ((*items)[2].generation.max_tokens, 7);
  EXPECT_EQ((*items)[2].system, "be brief");
}

TEST(RunPromptListTest, ObjectsOverrideOptionsByTheirNames) {
  RunOptions options;
  options.sampling.top_k = 5;
  const auto items = ParsePromptList(
      R"({"prompt": "a\nb", "max_tokens": 3, "seed": 18446744073709551615, "temperature": 0.25,
)"
      "\n",
      options);
  EXPECT_THAT(items.status().message(), HasSubstr("line 1: a line must be a JSON object"));
  const auto good = ParsePromptList(
      R"({"prompt":"a\nb","max_tokens":3,"seed":18446744073709551615,"temperature":0.25,)"
      R"("ignore_eos":true,"logit_bias":["5=-inf"],"priority":-2,"choices":2,"system":"s"})"
      "\n"
      R"({"prompt":"c","seed":null})",
      options);
  ASSERT_TRUE(good.ok()) << good.status().message();
  ASSERT_THAT(*good, SizeIs(2));
  const PromptItem& first = (*good)[0];
  EXPECT_EQ(first.prompt, "a\nb");
  EXPECT_EQ(first.system, "s");
  EXPECT_EQ(first.generation.max_tokens, 3);
  EXPECT_EQ(first.sampling.seed, 18446744073709551615U);
  EXPECT_EQ(first.sampling.temperature, 0.25F);
  EXPECT_TRUE(first.sampling.ignore_eos);
  ASSERT_THAT(first.sampling.logit_bias, SizeIs(1));
  EXPECT_EQ(first.sampling.logit_bias[0].token, 5);
  EXPECT_EQ(first.sampling.top_k, 5);
  EXPECT_EQ(first.priority, -2);
  EXPECT_EQ(first.choices, 2);
  EXPECT_EQ((*good)[1].sampling.seed, std::nullopt);
}

TEST(RunPromptListTest, NestingDeeperThanTheStackIsRefusedByName) {
  const std::string deep = std::string(400000, '[') + std::string(400000, ']');
  const auto items = ParsePromptList("{\"prompt\":" + deep + "}", {});
  ASSERT_FALSE(items.ok());
  EXPECT_THAT(items.status().message(), HasSubstr("prompt"));
  EXPECT_FALSE(ParsePromptList("{\"logit_bias\":[" + deep + "],\"prompt\":\"x\"}", {}).ok());
}

TEST(RunPromptListTest, WhatCannotBeMeantIsRefusedWithItsLine) {
  const auto error_of = [](const std::string& text) {
    return ParsePromptList(text, RunOptions{}).status().message();
  };
  EXPECT_THAT(error_of(""), HasSubstr("at least one prompt"));
  EXPECT_THAT(error_of("\n \n"), HasSubstr("at least one prompt"));
  EXPECT_THAT(error_of("{\"prompt\":\"a\"}\nplain"), HasSubstr("line 2: a line must be"));
  EXPECT_THAT(error_of("{\"text\":\"a\"}"), HasSubstr("does not know: text"));
  EXPECT_THAT(error_of("{\"max_tokens\":3}"), HasSubstr("must have a prompt"));
  EXPECT_THAT(error_of("{\"prompt\":\"a\",\"top_k\":\"many\"}"), HasSubstr("many"));
  EXPECT_THAT(error_of("{\"prompt\":\"a\",\"ignore_eos\":1}"), HasSubstr("true or false"));
  EXPECT_THAT(error_of("{\"prompt\":\"a\",\"choices\":0}"), HasSubstr("got \"0\""));
  EXPECT_THAT(error_of("\xFF"), HasSubstr("UTF-8"));
}

}  // namespace
}  // namespace swiftkv
