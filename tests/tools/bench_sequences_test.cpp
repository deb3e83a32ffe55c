// SPDX-License-Identifier: Apache-2.0
// Tests the contexts of `bench model`: copies hold what was computed, and time is asked for only
// where it is wanted.
#include "tools/bench_sequences.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/tiny_model.h"

namespace swiftkv {
namespace {

class BenchSequencesTest : public testing::TestWithParam<TinyFamily> {
 protected:
  void SetUp() override {
    const TempDirectory directory;
    TinyModel tiny;
    tiny.name = "bench";
    tiny.family = GetParam();
    tiny.shape.layers = tiny.family == TinyFamily::kGemma3 ? 7 : 2;
    tiny.tokenizer = TinyChatTokenizer(TinyVocabularyKind::kBpe);
    ModelOptions options;
    options.threads = 1;
    options.max_batch_rows = 16;
    options.path = WriteTinyGguf(tiny, directory.path()).value();
    model_ = LanguageModel::Load(options, nullptr).value();
    KvCacheOptions cache;
    cache.layers = model_->layer_shapes();
    cache.memory_bytes = 64U << 20;
    cache.poison_free_frames = true;
    cache_ = KvCache::Create(cache).value();
    sequences_ = std::make_unique<BenchSequences>(model_.get(), cache_.get());
  }

  // The pages of a sequence's layer that hold a slot at or behind `first`.
  std::set<const std::byte*> PagesFrom(SequenceId sequence, int layer, std::int64_t first) {
    std::set<const std::byte*> pages;
    std::vector<PageRun> runs;
    cache_->AppendRuns(sequence, layer, 0, &runs);
    for (const PageRun& run : runs) {
      for (int page = 0; page < run.num_pages; ++page) {
        if (run.first_position + (page + 1) * kPageTokens > first) pages.insert(run.Page(page, 0));
      }
    }
    return pages;
  }

  // The logits of the next token.
  std::vector<float> Next(SequenceId sequence) {
    const TokenId token = 7;
    const BatchSlice slice = {sequence, cache_->Length(sequence), 0, 1, 1};
    EXPECT_TRUE(cache_->Reserve(sequence, 1).ok());
    const auto logits =
        model_->Forward(cache_.get(), {std::span(&token, 1), std::span(&slice, 1)}, nullptr);
    EXPECT_TRUE(logits.ok()) << logits.status().message();
    return {logits->begin(), logits->end()};
  }

  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<BenchSequences> sequences_;
};

TEST_P(BenchSequencesTest, ACopySharesThePrefixAndHoldsTheRestForItself) {
  const SequenceId whole = cache_->CreateSequence().value();
  ASSERT_TRUE(sequences_->Append(whole, 38).ok());
  const SequenceId prefix = cache_->Fork(whole).value();
  ASSERT_TRUE(sequences_->Append(whole, 45).ok());

  const SequenceId copy = sequences_->CopyBehind(prefix, whole).value();
  EXPECT_EQ(cache_->Length(copy), 83);
  EXPECT_EQ(Next(copy), Next(whole));
  for (int layer = 0; layer < cache_->num_layers(); ++layer) {
    for (const std::byte* page : PagesFrom(copy, layer, 48)) {
      EXPECT_EQ(PagesFrom(whole, layer, 0).count(page), 0U) << layer;
    }
  }
  cache_->CheckInvariants();
}

TEST_P(BenchSequencesTest, AFullCacheIsAnErrorThatLeavesNothingBehind) {
  const SequenceId whole = cache_->CreateSequence().value();
  const SequenceId empty = cache_->Fork(whole).value();
  ASSERT_TRUE(sequences_->Append(whole, 1000).ok());
  const std::uint64_t tokens = cache_->Balance().live_tokens;
  Status status;
  std::vector<SequenceId> copies;
  while (status.ok() && copies.size() < 10'000) {
    const Result<SequenceId> copy = sequences_->CopyBehind(empty, whole);
    status = copy.status();
    if (copy.ok()) copies.push_back(*copy);
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (const SequenceId copy : copies) cache_->Release(copy);
  EXPECT_EQ(cache_->Balance().live_tokens, tokens);
  cache_->CheckInvariants();
}

TEST_P(BenchSequencesTest, StepsAdvanceEverySequenceByOne) {
  std::vector<SequenceId> batch;
  for (int i = 0; i < 3; ++i) {
    batch.push_back(cache_->CreateSequence().value());
    ASSERT_TRUE(sequences_->Append(batch.back(), 5 + i).ok());
  }
  ASSERT_TRUE(sequences_->Step(batch).ok());
  ASSERT_TRUE(sequences_->Step(batch).ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cache_->Length(batch[static_cast<std::size_t>(i)]), 7 + i);
}

TEST_P(BenchSequencesTest, AttentionIsTimedOnlyWhereAskedFor) {
  ForwardTimes times;
  const SequenceId sequence = cache_->CreateSequence().value();
  ASSERT_TRUE(sequences_->Append(sequence, 20).ok());
  EXPECT_EQ(times.attention_seconds, 0);
  model_->set_times(&times);
  ASSERT_TRUE(sequences_->Append(sequence, 20).ok());
  EXPECT_GT(times.attention_seconds, 0);
  EXPECT_GT(times.store_seconds, 0);
  const double before = times.attention_seconds;
  model_->set_times(nullptr);
  ASSERT_TRUE(sequences_->Append(sequence, 20).ok());
  EXPECT_EQ(times.attention_seconds, before);
}

INSTANTIATE_TEST_SUITE_P(Families, BenchSequencesTest,
                         testing::Values(TinyFamily::kLlama, TinyFamily::kGemma3),
                         [](const auto& tested) {
                           return std::string(TinyFamilyName(tested.param));
                         });

}  // namespace
}  // namespace swiftkv
