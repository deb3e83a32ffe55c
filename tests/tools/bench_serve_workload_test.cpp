// SPDX-License-Identifier: Apache-2.0
// Tests the prompts of loads: lengths, what they share, and that a seed fixes them.
#include "tools/bench_serve_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>

namespace swiftkv {
namespace {

using testing::SizeIs;

BenchServeOptions Options(const std::string& workload) {
  BenchServeOptions options;
  options.target.url = "http://a";
  options.workload.workload = workload;
  options.workload.prefix_tokens = 50;
  options.workload.own_tokens = 9;
  options.workload.output_tokens = 5;
  options.workload.turns = 3;
  return options;
}

// Numbers words as they come: one token for a word of at most `longest` letters, one for each
// letter of others.
TokenizeText Tokenizer(std::size_t longest) {
  auto ids = std::make_shared<std::map<std::string, int>>();
  return [ids, longest](const std::string& text) -> std::optional<std::vector<int>> {
    std::vector<int> tokens;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const auto id = ids->emplace(word, static_cast<int>(ids->size()) + 500).first->second;
      if (word.size() <= longest) {
        tokens.push_back(id);
      } else {
        for (const char c : word) tokens.push_back(c);
      }
    }
    return tokens;
  };
}

TokenizeText NoTokenizer() {
  return [](const std::string&) { return std::nullopt; };
}

std::size_t WordsIn(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')) + 1;
}

TEST(BenchServeLexiconTest, WordsOfOneTokenMakeTextsOfKnownLength) {
  const ServeLexicon lexicon = MakeServeLexicon(Tokenizer(5));
  EXPECT_TRUE(lexicon.exact_words);
  EXPECT_TRUE(lexicon.told_ids);
  EXPECT_EQ(lexicon.tokens_per_word, 1);
  for (const std::string& word : lexicon.words) EXPECT_LE(word.size(), 5U);
  EXPECT_THAT(lexicon.ids, SizeIs(lexicon.words.size()));
  for (const int id : lexicon.ids) EXPECT_GE(id, 500);
}

TEST(BenchServeLexiconTest, WordsOfSeveralTokensGiveEstimates) {
  const ServeLexicon lexicon = MakeServeLexicon(Tokenizer(0));
  EXPECT_FALSE(lexicon.exact_words);
  EXPECT_TRUE(lexicon.told_ids);
  EXPECT_GT(lexicon.tokens_per_word, 3);
  EXPECT_LT(lexicon.tokens_per_word, 7);
  for (const int id : lexicon.ids) EXPECT_TRUE(id >= 'a' && id <= 'z');
}

// Words that are one token in pairs but not side by side would make prompts longer than planned.
TEST(BenchServeLexiconTest, WordsThatMergeWithTheirNeighboursAreNotTrusted) {
  const TokenizeText apart = Tokenizer(9);
  const ServeLexicon lexicon =
      MakeServeLexicon([&](const std::string& text) -> std::optional<std::vector<int>> {
        std::optional<std::vector<int>> tokens = apart(text);
        if (tokens->size() > 2) tokens->push_back(7);
        return tokens;
      });
  EXPECT_FALSE(lexicon.exact_words);
}

TEST(BenchServeLexiconTest, AServerThatDoesNotTellGetsIdsOfARange) {
  const ServeLexicon lexicon = MakeServeLexicon(NoTokenizer());
  EXPECT_FALSE(lexicon.exact_words);
  EXPECT_FALSE(lexicon.told_ids);
  EXPECT_EQ(lexicon.ids.front(), 1000);
  EXPECT_EQ(lexicon.ids.back(), 29999);
  EXPECT_GE(lexicon.words.size(), 16U);
}

TEST(BenchServeWorkloadTest, SharedPromptsBeginAlikeAndEndApart) {
  const BenchServeOptions options = Options("shared");
  const ServeWorkload workload(options, MakeServeLexicon(Tokenizer(9)));
  std::set<std::vector<int>> owns;
  const std::vector<int> first = workload.Turn(false, 0, 0).ids;
  for (int i = 0; i < 20; ++i) {
    const ServeTurn turn = workload.Turn(false, i, 0);
    ASSERT_THAT(turn.ids, SizeIs(59));
    EXPECT_EQ(turn.prompt_tokens, 59);
    EXPECT_EQ(turn.output_tokens, 5);
    EXPECT_EQ(turn.leave_after, -1);
    EXPECT_TRUE(std::equal(first.begin(), first.begin() + 50, turn.ids.begin()));
    owns.insert({turn.ids.begin() + 50, turn.ids.end()});
  }
  EXPECT_THAT(owns, SizeIs(20));
}

TEST(BenchServeWorkloadTest, UniquePromptsAreAsLongAndBeginApart) {
  const ServeWorkload workload(Options("unique"), MakeServeLexicon(Tokenizer(9)));
  std::set<std::vector<int>> beginnings;
  for (int i = 0; i < 20; ++i) {
    const ServeTurn turn = workload.Turn(false, i, 0);
    ASSERT_THAT(turn.ids, SizeIs(59));
    beginnings.insert({turn.ids.begin(), turn.ids.begin() + 16});
  }
  EXPECT_THAT(beginnings, SizeIs(20));
}

TEST(BenchServeWorkloadTest, TextsHaveAWordForEachToken) {
  BenchServeOptions options = Options("shared");
  options.workload.prompt = "text";
  const ServeWorkload exact(options, MakeServeLexicon(Tokenizer(9)));
  EXPECT_EQ(WordsIn(exact.Turn(false, 0, 0).text), 59U);
  EXPECT_TRUE(exact.Turn(false, 0, 0).ids.empty());
  const ServeLexicon long_words = MakeServeLexicon(Tokenizer(0));
  const ServeWorkload estimated(options, long_words);
  EXPECT_NEAR(static_cast<double>(WordsIn(estimated.Turn(false, 0, 0).text)),
              59 / long_words.tokens_per_word, 1.5);
}

TEST(BenchServeWorkloadTest, LaterTurnsSayOnlyWhatIsNew) {
  const ServeWorkload workload(Options("multi-turn"), MakeServeLexicon(Tokenizer(9)));
  EXPECT_EQ(workload.turns(), 3);
  EXPECT_EQ(WordsIn(workload.Turn(false, 4, 0).text), 59U);
  EXPECT_EQ(WordsIn(workload.Turn(false, 4, 1).text), 9U);
  EXPECT_NE(workload.Turn(false, 4, 1).text, workload.Turn(false, 4, 2).text);
  EXPECT_NE(workload.Turn(false, 4, 1).text, workload.Turn(false, 5, 1).text);
}

TEST(BenchServeWorkloadTest, DrawnLengthsAreThoseOfTheDistribution) {
  BenchServeOptions options = Options("alpaca");
  options.workload.seed = 3;
  const ServeWorkload workload(options, MakeServeLexicon(Tokenizer(9)));
  const std::vector<RequestLengths> lengths = DrawLengths(FindLengths("alpaca").value(), 9, 3);
  for (int i = 0; i < 9; ++i) {
    const ServeTurn turn = workload.Turn(false, i, 0);
    EXPECT_EQ(turn.prompt_tokens, lengths[static_cast<std::size_t>(i)].prompt);
    EXPECT_THAT(turn.ids, SizeIs(turn.prompt_tokens));
    EXPECT_EQ(turn.output_tokens, lengths[static_cast<std::size_t>(i)].output);
  }
}

TEST(BenchServeWorkloadTest, ASeedFixesPromptsAndAnotherGivesOthers) {
  BenchServeOptions options = Options("shared");
  const ServeLexicon lexicon = MakeServeLexicon(Tokenizer(9));
  const ServeWorkload one(options, lexicon);
  const ServeWorkload same(options, lexicon);
  options.workload.seed = 2;
  const ServeWorkload other(options, lexicon);
  EXPECT_EQ(one.Turn(false, 7, 0).ids, same.Turn(false, 7, 0).ids);
  EXPECT_NE(one.Turn(false, 7, 0).ids, other.Turn(false, 7, 0).ids);
}

TEST(BenchServeWorkloadTest, TheWarmUpLeavesNothingOfUseUnlessAsked) {
  BenchServeOptions options = Options("shared");
  const ServeLexicon lexicon = MakeServeLexicon(Tokenizer(9));
  const auto shared = [&](bool warm_prefix) {
    options.load.warm_prefix = warm_prefix;
    const ServeWorkload workload(options, lexicon);
    const std::vector<int> warm = workload.Turn(true, 0, 0).ids;
    const std::vector<int> measured = workload.Turn(false, 0, 0).ids;
    return std::mismatch(warm.begin(), warm.end(), measured.begin()).first - warm.begin();
  };
  EXPECT_LT(shared(false), 16);
  EXPECT_GE(shared(true), 50);
  EXPECT_LT(shared(true), 59);
}

TEST(BenchServeWorkloadTest, SoManyLeaveAsWereAskedFor) {
  BenchServeOptions options = Options("shared");
  for (const float share : {0.0F, 0.3F, 1.0F}) {
    options.load.disconnect_share = share;
    const ServeWorkload workload(options, MakeServeLexicon(NoTokenizer()));
    int leave = 0;
    std::set<int> points;
    for (int i = 0; i < 1000; ++i) {
      const int point = workload.Turn(false, i, 0).leave_after;
      leave += point >= 0 ? 1 : 0;
      if (point >= 0) points.insert(point);
      EXPECT_LT(point, 5);
      EXPECT_EQ(workload.Turn(true, i, 0).leave_after, -1);
    }
    EXPECT_NEAR(leave, 1000 * share, 60);
    EXPECT_THAT(points, SizeIs(share > 0 ? 5 : 0));
  }
}

}  // namespace
}  // namespace swiftkv
