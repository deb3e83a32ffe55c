// SPDX-License-Identifier: Apache-2.0
// Tests what documents hold, with a tokenizer of bytes that can be read back.
#include "engine/recall_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/planted_facts.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr TokenId kBos = 1000;

Result<std::vector<TokenId>> Bytes(std::string_view text) {
  return std::vector<TokenId>(text.begin(), text.end());
}

std::string Read(std::span<const TokenId> tokens) {
  std::string text;
  for (const TokenId token : tokens) text += token == kBos ? '^' : static_cast<char>(token);
  return text;
}

std::vector<TokenId> Text(std::size_t length) {
  std::vector<TokenId> text;
  for (std::size_t i = 0; i < length; ++i) text.push_back(static_cast<TokenId>('a' + i * i % 26));
  return text;
}

RecallSettings Settings() {
  RecallSettings settings;
  settings.bos = kBos;
  settings.context = 2048;
  settings.scored_tokens = 100;
  settings.text_windows = 2;
  return settings;
}

std::vector<RecallDocument> Make(const RecallSettings& settings, std::size_t length = 4500) {
  const std::vector<TokenId> text = Text(length);
  Result<std::vector<RecallDocument>> documents = MakeRecallDocuments(text, settings, Bytes);
  EXPECT_TRUE(documents.ok()) << documents.status().message();
  return documents.ok() ? std::move(*documents) : std::vector<RecallDocument>{};
}

std::vector<RecallDocument> OfKind(const std::vector<RecallDocument>& documents, TaskKind kind) {
  std::vector<RecallDocument> found;
  for (const RecallDocument& document : documents) {
    if (document.kind == kind) found.push_back(document);
  }
  return found;
}

TEST(RecallTasksTest, ATextGoesOnWhereItsPrefixEnds) {
  const auto documents = OfKind(Make(Settings()), TaskKind::kText);
  ASSERT_EQ(documents.size(), 2U);
  const std::string text = Read(Text(4500));
  EXPECT_EQ(Read(documents[0].prefix), std::string("^") + text.substr(0, 1947));
  EXPECT_EQ(Read(documents[0].continuations.at(0).tokens), text.substr(1947, 100));
  EXPECT_EQ(documents[0].continuations[0].first_scored, 1);
  EXPECT_EQ(Read(documents[1].prefix), std::string("^") + text.substr(2047, 1947));
}

TEST(RecallTasksTest, ACopyIsThePrefixAgain) {
  for (const RecallDocument& document : OfKind(Make(Settings()), TaskKind::kCopy)) {
    EXPECT_EQ(document.prefix.size(), 1024U);
    EXPECT_EQ(Read(document.continuations.at(0).tokens), Read(document.prefix).substr(1));
  }
}

TEST(RecallTasksTest, ANeedleLiesAtItsDepthAndItsAnswerAloneIsScored) {
  const auto documents = OfKind(Make(Settings()), TaskKind::kNeedle);
  ASSERT_EQ(documents.size(), 3U * 5 * 2);
  for (const RecallDocument& document : documents) {
    SCOPED_TRACE(document.name);
    const std::string prefix = Read(document.prefix);
    const Continuation& asked = document.continuations.at(0);
    const std::string scored =
        Read(asked.tokens).substr(static_cast<std::size_t>(asked.first_scored));
    const std::size_t at = prefix.find("The access code of");
    ASSERT_NE(at, std::string::npos);
    const std::string fact = prefix.substr(at, prefix.find('.', at) - at);
    EXPECT_THAT(fact, testing::EndsWith(" is" + scored));
    EXPECT_EQ(scored.size(), 6U);
    EXPECT_NEAR(static_cast<double>(at) / static_cast<double>(prefix.size()), document.depth, 0.25);
    EXPECT_LE(document.prefix.size() + asked.tokens.size(),
              static_cast<std::size_t>(document.length));
    EXPECT_EQ(prefix.front(), '^');
    if (document.question_inside) {
      EXPECT_THAT(prefix, HasSubstr("Question: What"));
      EXPECT_EQ(asked.first_scored, 1);
    } else {
      EXPECT_THAT(prefix, Not(HasSubstr("Question")));
      EXPECT_THAT(Read(asked.tokens), HasSubstr("Question: What"));
    }
  }
}

TEST(RecallTasksTest, EveryOneOfManyFactsIsAskedFor) {
  const auto documents = OfKind(Make(Settings()), TaskKind::kMultiNeedle);
  ASSERT_EQ(documents.size(), 3U);
  for (const RecallDocument& document : documents) {
    const std::string prefix = Read(document.prefix);
    std::set<std::string> answers;
    for (const Continuation& asked : document.continuations) {
      const std::string answer =
          Read(asked.tokens).substr(static_cast<std::size_t>(asked.first_scored));
      EXPECT_THAT(prefix, HasSubstr(" is" + answer + "."));
      answers.insert(answer);
    }
    EXPECT_EQ(answers.size(), 5U);
  }
}

TEST(RecallTasksTest, NamesAreUniqueAndASeedGivesTheSameAgain) {
  const auto documents = Make(Settings());
  std::set<std::string> names;
  for (const RecallDocument& document : documents) names.insert(document.name);
  EXPECT_EQ(names.size(), documents.size());
  const auto again = Make(Settings());
  RecallSettings other_settings = Settings();
  other_settings.seed = 2;
  const auto other = Make(other_settings);
  ASSERT_EQ(again.size(), documents.size());
  bool differs = false;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    EXPECT_EQ(again[i].prefix, documents[i].prefix);
    differs = differs || other[i].prefix != documents[i].prefix;
  }
  EXPECT_TRUE(differs);
}

TEST(RecallTasksTest, MoreWindowsAndNeedlesLeaveTheDocumentsOfFewerAsTheyAre) {
  const auto few = Make(Settings(), 9000);
  RecallSettings settings = Settings();
  settings.text_windows = 4;
  settings.needle_documents = 2;
  std::map<std::string, RecallDocument> many;
  for (const RecallDocument& document : Make(settings, 9000)) many[document.name] = document;
  EXPECT_EQ(few.size(), 2U + 2 + 33);
  EXPECT_EQ(many.size(), 4U + 4 + 2 * 33);
  for (const RecallDocument& document : few) {
    SCOPED_TRACE(document.name);
    const auto same = many.find(document.name);
    ASSERT_NE(same, many.end());
    EXPECT_EQ(same->second.number, document.number);
    EXPECT_EQ(same->second.prefix, document.prefix);
    ASSERT_EQ(same->second.continuations.size(), document.continuations.size());
    for (std::size_t i = 0; i < document.continuations.size(); ++i) {
      EXPECT_EQ(same->second.continuations[i].tokens, document.continuations[i].tokens);
    }
  }
}

TEST(RecallTasksTest, NoTwoDocumentsOfAKindHaveOneNumber) {
  RecallSettings settings = Settings();
  settings.needle_documents = 2;
  for (const TaskKind kind :
       {TaskKind::kText, TaskKind::kCopy, TaskKind::kNeedle, TaskKind::kMultiNeedle}) {
    const auto documents = OfKind(Make(settings), kind);
    std::set<std::uint64_t> numbers;
    for (const RecallDocument& document : documents) numbers.insert(document.number);
    EXPECT_EQ(numbers.size(), documents.size()) << TaskKindName(kind);
  }
}

TEST(RecallTasksTest, FactsDifferInNamesAndAnswers) {
  std::set<std::string> sentences;
  std::set<std::string> answers;
  for (const PlantedFact& fact : MakePlantedFacts(kMostFacts, 3)) {
    EXPECT_THAT(fact.sentence, HasSubstr(fact.answer + "."));
    EXPECT_THAT(fact.question, testing::EndsWith(" is"));
    sentences.insert(fact.sentence);
    answers.insert(fact.answer);
  }
  EXPECT_EQ(sentences.size(), static_cast<std::size_t>(kMostFacts));
  EXPECT_EQ(answers.size(), static_cast<std::size_t>(kMostFacts));
}

TEST(RecallTasksTest, WhatCannotBeMadeIsRefused) {
  const std::vector<TokenId> text = Text(4500);
  const auto refusal = [&](auto change, std::size_t length = 4500) {
    RecallSettings settings = Settings();
    change(&settings);
    return MakeRecallDocuments(std::span(text).first(length), settings, Bytes).status().message();
  };
  EXPECT_THAT(refusal([](RecallSettings* s) { s->context = 255; }), HasSubstr("255"));
  EXPECT_THAT(refusal([](RecallSettings*) {}, 1023), HasSubstr("1023"));
  EXPECT_THAT(refusal([](RecallSettings* s) { s->lengths = {2049}; }), HasSubstr("2049"));
  EXPECT_THAT(refusal([](RecallSettings* s) { s->depths = {1.5}; }), HasSubstr("1.5"));
  EXPECT_THAT(refusal([](RecallSettings* s) { s->keys = 65; }), HasSubstr("65"));
  EXPECT_THAT(refusal([](RecallSettings* s) { s->keys = 30; }), HasSubstr("facts"));
}

}  // namespace
}  // namespace swiftkv
