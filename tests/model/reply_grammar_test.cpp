// SPDX-License-Identifier: Apache-2.0
// Tests that a grammar holds from its trigger on, wherever tokens begin, and not inside reasoning.
#include "model/reply_grammar.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "model/sampler.h"
#include "model/test_vocabularies.h"

namespace swiftkv {
namespace {

const Vocabulary& Tiny() {
  static const std::unique_ptr<Vocabulary> vocabulary =
      TinyVocabularyWith(TinyChatTokenizer(TinyVocabularyKind::kBpe));
  return *vocabulary;
}

SamplerOptions Awaiting(const GrammarTriggers& triggers) {
  SamplerOptions options;
  options.grammar = "root ::= \"<call>\" [0-9]+ \"</call>\"";
  options.grammar_triggers = triggers;
  return options;
}

std::unique_ptr<Sampler> Make(const SamplerOptions& options) {
  auto sampler = Sampler::Create(Tiny(), options);
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
  return sampler.ok() ? std::move(sampler).value() : nullptr;
}

// Returns how many bytes of `text` are accepted, token by token as `tokens` say.
std::size_t AcceptedBytes(Sampler* sampler, const std::vector<TokenId>& tokens) {
  std::size_t bytes = 0;
  for (const TokenId token : tokens) {
    if (!sampler->Accept(token).ok()) break;
    bytes += Tiny().TokenToPiece(token, true).size();
  }
  return bytes;
}

std::size_t AcceptedBytes(const SamplerOptions& options, const std::string& text) {
  const auto sampler = Make(options);
  return AcceptedBytes(sampler.get(), *Tiny().EncodeText(text));
}

TEST(ReplyGrammarTest, AllowsEverythingUntilTheWordIsComplete) {
  const SamplerOptions options = Awaiting({.words = {"<call>"}});
  for (const std::string text : {"anything <cal at all", "", "<call", "</call>"}) {
    EXPECT_EQ(AcceptedBytes(options, text), text.size()) << text;
  }
  const std::string good = "let me see <call>12</call>";
  EXPECT_EQ(AcceptedBytes(options, good), good.size());
  EXPECT_EQ(AcceptedBytes(options, "let me see <call>1x"), 18U);
}

TEST(ReplyGrammarTest, EndsTheReplyOnlyWhereTheGrammarDoes) {
  const auto sampler = Make(Awaiting({.words = {"<call>"}}));
  const TokenId end = Tiny().end_of_generation_tokens().front();
  const auto begin = *Tiny().EncodeText("ab <call>1");
  for (const TokenId token : begin) ASSERT_TRUE(sampler->Accept(token).ok());
  EXPECT_FALSE(sampler->Accept(end).ok());
  const auto rest = *Tiny().EncodeText("</call>");
  for (const TokenId token : rest) {
    ASSERT_TRUE(sampler->Accept(token).ok());
  }
  EXPECT_TRUE(sampler->Accept(end).ok());
}

// The library searches the whole reply for a pattern; words must come to the same.
TEST(ReplyGrammarTest, WordsTriggerWhereTheLibrarysSearchDoes) {
  const SamplerOptions fast = Awaiting({.words = {"<call>", "<c<"}});
  const SamplerOptions slow = Awaiting({.patterns = {"<call>", "<c<"}});
  std::mt19937 random(7);
  const std::vector<std::string> pieces = {"<call>",  "<", "c",         "all>",    "12",
                                           "</call>", " ", "the thing", "<<call>", "\xE4\xBD\xA0"};
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 8; ++i) text += pieces[random() % pieces.size()];
    EXPECT_EQ(AcceptedBytes(fast, text), AcceptedBytes(slow, text)) << text;
  }
}

TEST(ReplyGrammarTest, NothingTriggersInsideReasoning) {
  GrammarTriggers triggers = {.words = {"<call>"}};
  triggers.reasoning_start = "<think>";
  triggers.reasoning_ends = {"</think>"};
  const SamplerOptions options = Awaiting(triggers);
  for (const std::string text :
       {"<think>I could <call>x</call></think> fine", "<think><call>x", "a<think>b</think><call>1",
        "<think>a</think><think><call>b</think>c", "<think></think><think></think><call>"}) {
    EXPECT_EQ(AcceptedBytes(options, text), text.size()) << text;
  }
  EXPECT_EQ(AcceptedBytes(options, "<think>a</think><call>x"), 22U);
  triggers.in_reasoning = true;
  EXPECT_EQ(AcceptedBytes(Awaiting(triggers), "<call>x"), 7U);
  EXPECT_EQ(AcceptedBytes(Awaiting(triggers), "a</think><call>x"), 15U);
}

TEST(ReplyGrammarTest, ATokenThatGoesOnOtherwiseBehindTheWordEndsTheGrammar) {
  // The token "the" completes the word and goes on with what the grammar does not know.
  SamplerOptions options;
  options.grammar = "root ::= \"t\" \"x\"";
  options.grammar_triggers = GrammarTriggers{.words = {"t"}};
  const auto tokens = *Tiny().EncodeText("the");
  const auto sampler = Make(options);
  for (const TokenId token : tokens) {
    if (Tiny().TokenToPiece(token) == "t") GTEST_SKIP() << "the tiny vocabulary changed";
    EXPECT_TRUE(sampler->Accept(token).ok());
  }
  EXPECT_TRUE(sampler->Accept(Tiny().EncodeText("y")->front()).ok());
}

TEST(ReplyGrammarTest, APrefixThatThePromptHasIsTakenFirst) {
  SamplerOptions options;
  options.grammar = "root ::= \"<|im_start|>\" \"a\\n\" [0-9]+";
  options.grammar_prefix = "<|im_start|>a\n";
  EXPECT_EQ(AcceptedBytes(options, "12x"), 2U);
  options.grammar_prefix = "<|im_start|>b";
  EXPECT_FALSE(Sampler::Create(Tiny(), options).ok());
}

TEST(ReplyGrammarTest, RefusesTriggersThatAreNone) {
  EXPECT_FALSE(Sampler::Create(Tiny(), Awaiting({.words = {}})).ok());
  EXPECT_FALSE(Sampler::Create(Tiny(), Awaiting({.words = {""}})).ok());
  EXPECT_FALSE(Sampler::Create(Tiny(), Awaiting({.patterns = {"(("}})).ok());
  EXPECT_FALSE(
      Sampler::Create(Tiny(), Awaiting({.words = {std::string(kMaxTriggerBytes + 1, 'x')}})).ok());
}

}  // namespace
}  // namespace swiftkv
