// SPDX-License-Identifier: Apache-2.0
// Tests that sampled replies obey a grammar to the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "model/json_grammar.h"
#include "model/sampler.h"
#include "model/test_vocabularies.h"
#include "model/token_text.h"

namespace swiftkv {
namespace {

using ::testing::HasSubstr;

const Vocabulary& Tiny() {
  static const std::unique_ptr<Vocabulary> vocabulary =
      TinyVocabularyWith(TinyChatTokenizer(TinyVocabularyKind::kBpe));
  return *vocabulary;
}

// Samples from random logits until the reply ends; `limit` tokens at most.
std::string RandomReply(const SamplerOptions& options, int limit, std::mt19937* random) {
  auto sampler = Sampler::Create(Tiny(), options);
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
  if (!sampler.ok()) return {};
  std::vector<TokenId> reply;
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> logits(static_cast<std::size_t>(Tiny().size()));
  for (int step = 0; step < limit; ++step) {
    for (float& logit : logits) logit = normal(*random);
    const auto token = (*sampler)->Sample(logits);
    EXPECT_TRUE(token.ok()) << token.status().message();
    if (!token.ok()) break;
    EXPECT_TRUE((*sampler)->Accept(*token).ok());
    if (Tiny().IsEndOfGeneration(*token)) return TextOfTokens(Tiny(), reply);
    reply.push_back(*token);
  }
  return "unfinished: " + TextOfTokens(Tiny(), reply);
}

TEST(SamplerGrammarTest, RepliesMatchAndEndOnlyWhereTheGrammarDoes) {
  std::mt19937 random(1);
  const std::regex expected("(yes|no)( and (the|on)){0,3}!");
  for (int round = 0; round < 100; ++round) {
    SamplerOptions options;
    options.seed = random();
    options.grammar = "root ::= (\"yes\" | \"no\") (\" and \" (\"the\" | \"on\")){0,3} \"!\"";
    options.temperature = round % 2 == 0 ? 0.0F : 1.5F;
    const std::string reply = RandomReply(options, 100, &random);
    EXPECT_TRUE(std::regex_match(reply, expected)) << reply;
  }
}

TEST(SamplerGrammarTest, EndOfReplyIsRefusedWhileTheGrammarIsUnfinished) {
  SamplerOptions options;
  options.grammar = "root ::= \"ab\"";
  auto sampler = Sampler::Create(Tiny(), options);
  ASSERT_TRUE(sampler.ok());
  const TokenId end = Tiny().end_of_generation_tokens().front();
  EXPECT_EQ((*sampler)->Accept(end).code(), StatusCode::kInvalidArgument);
  const auto tokens = Tiny().EncodeText("ab");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ((*sampler)->Accept(Tiny().EncodeText("b")->front()).code(),
            StatusCode::kInvalidArgument);
  for (const TokenId token : *tokens) EXPECT_TRUE((*sampler)->Accept(token).ok());
  EXPECT_TRUE((*sampler)->Accept(end).ok());
}

TEST(SamplerGrammarTest, GrammarAndBiasThatLeaveNothingAreAnError) {
  SamplerOptions options;
  options.grammar = "root ::= \"b\"";
  options.logit_bias = {{Tiny().EncodeText("b")->front(), -std::numeric_limits<float>::infinity()}};
  auto sampler = Sampler::Create(Tiny(), options);
  ASSERT_TRUE(sampler.ok());
  const std::vector<float> logits(static_cast<std::size_t>(Tiny().size()), 0.0F);
  const auto token = (*sampler)->Sample(logits);
  ASSERT_FALSE(token.ok());
  EXPECT_EQ(token.status().code(), StatusCode::kInvalidArgument);
}

TEST(SamplerGrammarTest, BadGrammarsAreInvalidArgumentsWithAReason) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"root ::= (", "missing"},
      {"root ::= root \"a\"", "left recursion"},
      {"root ::= <no such token>", "no token of the model"},
  };
  for (const auto& [grammar, reason] : bad) {
    SamplerOptions options;
    options.grammar = grammar;
    const auto sampler = Sampler::Create(Tiny(), options);
    ASSERT_FALSE(sampler.ok()) << grammar;
    EXPECT_EQ(sampler.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(sampler.status().message(), HasSubstr("GBNF")) << grammar;
    EXPECT_THAT(sampler.status().message(), HasSubstr(reason)) << grammar;
  }
}

TEST(SamplerGrammarTest, JsonSchemaBecomesAGrammarThatRepliesObey) {
  const auto grammar = GrammarFromJsonSchema(
      R"({"type": "object", "properties": {"on": {"type": "boolean"}, "n": {"enum": [1, 2]}},
          "required": ["on", "n"], "additionalProperties": false})");
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  std::mt19937 random(3);
  const std::regex expected(R"(\{\s*"on"\s*:\s*(true|false)\s*,\s*"n"\s*:\s*(1|2)\s*\})");
  for (int round = 0; round < 30; ++round) {
    SamplerOptions options;
    options.seed = random();
    options.grammar = *grammar;
    const std::string reply = RandomReply(options, 400, &random);
    EXPECT_TRUE(std::regex_match(reply, expected)) << reply;
  }
}

TEST(SamplerGrammarTest, SchemasThatCannotBecomeAGrammarAreRefused) {
  for (const char* schema :
       {"", "{", "[1, 2", "nonsense", R"({"$ref": "#/nowhere"})", R"({"type": "unheard-of"})"}) {
    const auto grammar = GrammarFromJsonSchema(schema);
    ASSERT_FALSE(grammar.ok()) << schema;
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
  }
  const auto any = GrammarFromJsonSchema("{}");
  ASSERT_TRUE(any.ok());
  EXPECT_THAT(*any, HasSubstr("root ::="));
}

}  // namespace
}  // namespace swiftkv
