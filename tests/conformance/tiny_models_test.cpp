// SPDX-License-Identifier: Apache-2.0
// Proves that the tiny models are fit to judge with: libllama loads each, and agrees with itself on
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "support/llama_oracle.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

constexpr int kPositions = 224;

class TinyModelTest : public testing::TestWithParam<TinyModel> {
 protected:
  // Opens the model of this case with libllama; the file goes with the fixture.
  std::unique_ptr<LlamaOracle> Open(OracleOptions options = {}) {
    options.context = GetParam().open_context;
    Result<std::string> path = WriteTinyGguf(GetParam(), directory_.path());
    EXPECT_TRUE(path.ok()) << path.status().message();
    Result<std::unique_ptr<LlamaOracle>> oracle = LlamaOracle::Load(*path, options);
    EXPECT_TRUE(oracle.ok()) << oracle.status().message();
    return oracle.ok() ? std::move(*oracle) : nullptr;
  }

  std::vector<int32_t> Tokens(int count = kPositions) const {
    return RandomTokens(count, GetParam().shape.vocabulary, GetParam().seed);
  }

 private:
  TempDirectory directory_;
};

TEST_P(TinyModelTest, LogitsAreFiniteAndTellTokensApart) {
  const auto oracle = Open();
  ASSERT_NE(oracle, nullptr);
  const Result<Logits> logits = oracle->Append(Tokens());
  ASSERT_TRUE(logits.ok()) << logits.status().message();
  ASSERT_EQ(logits->rows, kPositions);
  ASSERT_EQ(logits->vocabulary, GetParam().shape.vocabulary);
  std::set<int32_t> winners;
  int clear = 0;
  for (int row = 0; row < logits->rows; ++row) {
    const double deviation = Deviation(logits->Row(row));
    EXPECT_GT(deviation, 0.3) << "position " << row;
    EXPECT_LT(deviation, 1.0) << "position " << row;
    winners.insert(ArgMax(logits->Row(row)));
    // A gap above the widest bound of the conformance tests makes the comparison of winners count.
    if (TopGap(logits->Row(row)) > 4e-3F) ++clear;
  }
  EXPECT_GT(winners.size(), 20U);
  EXPECT_GT(clear, kPositions * 9 / 10);
}

// A model in which earlier tokens hardly matter would hide a wrong mask, page or position.
TEST_P(TinyModelTest, OneTokenMovesLaterLogitsByFarMoreThanTheBounds) {
  const auto oracle = Open();
  ASSERT_NE(oracle, nullptr);
  std::vector<int32_t> tokens = Tokens(128);
  const Result<Logits> before = oracle->Append(tokens);
  oracle->Clear();
  tokens[90] = (tokens[90] + 1) % GetParam().shape.vocabulary;
  const Result<Logits> after = oracle->Append(tokens);
  ASSERT_TRUE(before.ok() && after.ok());
  float largest = 0.0F;
  for (int row = 0; row < 90; ++row) {
    EXPECT_EQ(MaxAbsDifference(before->Row(row), after->Row(row)), 0.0F) << "position " << row;
  }
  for (int row = 91; row < 128; ++row) {
    largest = std::max(largest, MaxAbsDifference(before->Row(row), after->Row(row)));
  }
  EXPECT_GT(largest, 0.03F);
}

TEST_P(TinyModelTest, OldTokensMoveTheLogitsByMoreThanTheBounds) {
  const auto oracle = Open();
  ASSERT_NE(oracle, nullptr);
  std::vector<int32_t> tokens = Tokens(200);
  const Result<Logits> before = oracle->AppendForLast(tokens);
  oracle->Clear();
  for (int i = 0; i < 16; ++i) tokens[i] = (tokens[i] + 7) % GetParam().shape.vocabulary;
  const Result<Logits> after = oracle->AppendForLast(tokens);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_GT(MaxAbsDifference(before->Row(0), after->Row(0)), 5e-3F);
}

TEST_P(TinyModelTest, ChunksAndOneBatchAgreeInLibllama) {
  const auto oracle = Open();
  ASSERT_NE(oracle, nullptr);
  const Result<Logits> whole = oracle->Append(Tokens());
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  // GELU by a table of halves turns a difference in the last bit into one of 1e-3.
  const float bound = GetParam().family == TinyFamily::kGemma3 ? 2e-3F : 2e-5F;
  for (const int chunk : {1, 17}) {
    oracle->Clear();
    const Result<Logits> parts = AppendInChunks(oracle.get(), Tokens(), chunk);
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    EXPECT_LE(MaxAbsDifference(whole->values, parts->values), bound) << "chunk " << chunk;
  }
}

TEST_P(TinyModelTest, AnF16CacheStaysWithinTheBoundInLibllama) {
  const auto exact = Open();
  ASSERT_NE(exact, nullptr);
  const auto rounded = Open({.cache = OracleCache::kF16});
  ASSERT_NE(rounded, nullptr);
  const Result<Logits> a = exact->Append(Tokens());
  const Result<Logits> b = rounded->Append(Tokens());
  ASSERT_TRUE(a.ok() && b.ok());
  const float difference = MaxAbsDifference(a->values, b->values);
  RecordProperty("max_difference", std::to_string(difference));
  EXPECT_LE(difference, GetParam().family == TinyFamily::kGemma3 ? 4e-3F : 2e-3F);
}

INSTANTIATE_TEST_SUITE_P(Table, TinyModelTest, testing::ValuesIn(TinyModels()),
                         [](const auto& row) { return row.param.name; });

TEST(TinyGgufTest, TheSameDescriptionGivesTheSameBytes) {
  const TinyModel& model = TinyModelNamed("llama_gqa3_d64");
  EXPECT_EQ(SerializeGguf(MakeTinyGguf(model)), SerializeGguf(MakeTinyGguf(model)));
  TinyModel reseeded = model;
  reseeded.seed += 1;
  EXPECT_NE(SerializeGguf(MakeTinyGguf(model)), SerializeGguf(MakeTinyGguf(reseeded)));
}

TEST(TinyGgufTest, ASplitModelComputesWhatTheWholeFileDoes) {
  const TempDirectory directory;
  const TinyModel& model = TinyModelNamed("qwen3_d128");
  const auto tokens = RandomTokens(40, model.shape.vocabulary, 5);
  Result<std::string> whole_path = WriteTinyGguf(model, directory.path());
  Result<std::vector<std::string>> parts = WriteTinySplit(model, 3, directory.path());
  ASSERT_TRUE(whole_path.ok() && parts.ok());
  auto whole = LlamaOracle::Load(*whole_path, {});
  auto split = LlamaOracle::Load(parts->front(), {});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  ASSERT_TRUE(split.ok()) << split.status().message();
  EXPECT_EQ((*whole)->Append(tokens)->values, (*split)->Append(tokens)->values);
}

class TinyTokenizerTest : public testing::TestWithParam<TinyVocabularyKind> {};

TEST_P(TinyTokenizerTest, TextRoundTripsAndMergesApply) {
  const TempDirectory directory;
  TinyModel model = TinyModelNamed("llama_gqa3_d64");
  model.tokenizer = TinyChatTokenizer(GetParam());
  Result<std::string> path = WriteTinyGguf(model, directory.path());
  ASSERT_TRUE(path.ok());
  auto oracle = LlamaOracle::Load(*path, {});
  ASSERT_TRUE(oracle.ok()) << oracle.status().message();
  const std::string text = "the band and the \u00e9l\u00e8ve\n";
  const std::vector<int32_t> tokens = (*oracle)->Tokenize(text, false);
  const std::string back = (*oracle)->Text(tokens);
  EXPECT_TRUE(back == text || back == " " + text) << back;
  EXPECT_LT(tokens.size(), text.size()) << "no merge was applied";
  const std::vector<int32_t> turn = (*oracle)->Tokenize("<|im_end|>", false);
  ASSERT_EQ(turn.size(), 1U);
  EXPECT_TRUE((*oracle)->EndsGeneration(turn[0]));
  EXPECT_TRUE((*oracle)->Append(tokens).ok());
}

INSTANTIATE_TEST_SUITE_P(Kinds, TinyTokenizerTest,
                         testing::Values(TinyVocabularyKind::kSpm, TinyVocabularyKind::kBpe),
                         [](const auto& row) {
                           return row.param == TinyVocabularyKind::kSpm ? "spm" : "bpe";
                         });

}  // namespace
}  // namespace swiftkv
