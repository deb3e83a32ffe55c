// SPDX-License-Identifier: Apache-2.0
// Compares models that dropped tokens after a prompt with libllama, whose memory lost the same
// positions, and where kv heads keep different tokens with our own reference of attention.
//
// Nothing is shifted: what is kept stays at its position, and later tokens follow the prompt.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/conformance_bounds.h"
#include "support/llama_oracle.h"
#include "support/paged_model.h"
#include "support/sanitizers.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

constexpr int kPrompt = 203;
constexpr int kEnd = 144;  // of what may be dropped: more than a tiny model's window behind the end

// Returns positions below kEnd, each with this probability.
std::vector<std::int32_t> SomePositions(double probability, std::mt19937* random) {
  std::bernoulli_distribution choose(probability);
  std::vector<std::int32_t> positions;
  for (int p = 0; p < kEnd; ++p) {
    if (choose(*random)) positions.push_back(p);
  }
  return positions;
}

std::vector<std::int32_t> Others(const std::vector<std::int32_t>& positions) {
  std::vector<std::int32_t> others;
  for (std::int32_t p = 0; p < kEnd; ++p) {
    if (!std::binary_search(positions.begin(), positions.end(), p)) others.push_back(p);
  }
  return others;
}

template <typename Choose>
CompactionOrder Order(const DecoderSpec& spec, std::vector<KvFormat> formats,
                      const Choose& positions_of) {
  CompactionOrder order;
  order.end = kEnd;
  order.formats = std::move(formats);
  order.recipe = "positions by a test";
  for (int layer = 0; layer < static_cast<int>(spec.layers.size()); ++layer) {
    const DecoderLayerSpec& shape = spec.layers[static_cast<std::size_t>(layer)];
    if (shape.window > 0) continue;
    for (int head = 0; head < shape.kv_heads; ++head) {
      order.heads.push_back({layer, head, positions_of()});
    }
  }
  return order;
}

std::unique_ptr<PagedModel> Load(const std::string& path, const PagedModelOptions& options) {
  auto model = PagedModel::Load(path, options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? std::move(*model) : nullptr;
}

void Add(const Result<Logits>& part, Logits* all) {
  ASSERT_TRUE(part.ok()) << part.status().message();
  all->rows += part->rows;
  all->vocabulary = part->vocabulary;
  all->values.insert(all->values.end(), part->values.begin(), part->values.end());
}

class ForgottenTokensTest : public testing::TestWithParam<TinyModel> {};

TEST_P(ForgottenTokensTest, LogitsAreThoseOfLibllamaWithoutTheSamePositions) {
  const TinyModel& tiny = GetParam();
  const TempDirectory directory;
  const auto path = WriteTinyGguf(tiny, directory.path());
  ASSERT_TRUE(path.ok()) << path.status().message();
  constexpr int kContext = 768;
  const int more = kSanitized ? 9 : tiny.name == "llama_gqa3_d64" ? 500 : 60;
  const auto tokens = RandomTokens(kPrompt + more, tiny.shape.vocabulary, tiny.seed);
  const std::span<const TokenId> all(tokens);
  auto oracle = LlamaOracle::Load(*path, {.context = kContext});
  ASSERT_TRUE(oracle.ok()) << oracle.status().message();
  const auto ours = Load(*path, {.context = kContext});
  ASSERT_NE(ours, nullptr);

  std::mt19937 random(static_cast<std::uint32_t>(tiny.seed));
  const std::vector<std::int32_t> kept = SomePositions(0.4, &random);
  ASSERT_TRUE((*oracle)->Append(all.first(kPrompt)).ok());
  ASSERT_TRUE((*oracle)->Forget(Others(kept)).ok());
  ASSERT_TRUE(ours->Append(all.first(kPrompt)).ok());
  const auto compacted = ours->cache().Compact(
      ours->sequence(), Order(ours->model().spec(), {{"f32", "f32"}},
                              [&] { return std::vector<std::vector<std::int32_t>>{kept}; }));
  ASSERT_TRUE(compacted.ok()) << compacted.status().message();
  EXPECT_EQ(ours->cache().Length(ours->sequence()), kPrompt);

  // One token, some, then one by one, then a chunk.
  std::vector<int> chunks = {1, 7};
  for (int i = 8; i < more; i += chunks.back()) {
    chunks.push_back(i < more / 2 ? 1 : std::min(100, more - i));
  }
  int done = kPrompt;
  Logits theirs;
  Logits logits;
  for (const int chunk : chunks) {
    const auto next = all.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(chunk));
    Add((*oracle)->Append(next), &theirs);
    Add(ours->Append(next), &logits);
    done += chunk;
  }
  ExpectLogitsNear(theirs, logits, LogitBound(tiny.family, "f32"), "after forgetting");
  EXPECT_EQ(done, kPrompt + more);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, ForgottenTokensTest, testing::ValuesIn(TinyModels()),
                         [](const auto& test) { return test.param.name; });

// Appends to two models whose attention is computed differently, as their sequences stand on equal
// segments.
class UnlikeHeadsTest : public testing::Test {
 protected:
  void Load(const TinyModel& tiny, const std::string& format) {
    const auto path = WriteTinyGguf(tiny, directory_.path());
    ASSERT_TRUE(path.ok()) << path.status().message();
    for (const char* backend : {"reference", "cpu"}) {
      models_.push_back(
          swiftkv::Load(*path, {.format = format, .attention_backend = backend, .precise = true}));
      ASSERT_NE(models_.back(), nullptr);
    }
  }

  // Appends a prompt and has heads keep tokens at random, in each of the formats.
  void Compact(const std::vector<KvFormat>& formats) {
    const auto tokens = RandomTokens(kPrompt, 256, 21);
    for (const auto& model : models_) {
      ASSERT_TRUE(model->Append(tokens).ok());
      std::mt19937 random(7);
      const auto positions_of = [&] {
        std::vector<std::vector<std::int32_t>> positions(formats.size());
        const double kept = std::uniform_real_distribution<double>(0.1, 0.9)(random);
        std::uniform_int_distribution<std::size_t> format(0, formats.size() - 1);
        for (const std::int32_t p : SomePositions(kept, &random)) {
          positions[format(random)].push_back(p);
        }
        return positions;
      };
      const auto compacted = model->cache().Compact(
          model->sequence(), Order(model->model().spec(), formats, positions_of));
      ASSERT_TRUE(compacted.ok()) << compacted.status().message();
    }
  }

  TempDirectory directory_;
  std::vector<std::unique_ptr<PagedModel>> models_;
};

TEST_F(UnlikeHeadsTest, LogitsAreThoseOfTheReferenceOfAttention) {
  struct Case {
    const char* model;
    const char* format;
    std::vector<KvFormat> formats;
  };
  const Case cases[] = {
      {"llama_gqa3_d64", "f32", {{"f32", "f32"}}},
      {"llama_gqa3_d64", "f16", {{"f16", "f16"}, {"int8", "int8"}}},
      {"qwen3_d128", "int8", {{"int8", "int8"}, {"int8", "int4"}}},
      {"gemma3_d64_linear", "f16", {{"f16", "f16"}, {"int8", "int4"}, {"int4", "int4"}}}};
  for (const Case& tested : cases) {
    models_.clear();
    Load(TinyModelNamed(tested.model), tested.format);
    ASSERT_FALSE(HasFatalFailure());
    Compact(tested.formats);
    ASSERT_FALSE(HasFatalFailure());
    const auto more = RandomTokens(70, 256, 22);
    const std::span<const TokenId> all(more);
    int done = 0;
    for (const int chunk : {1, 1, 5, 60, 1, 2}) {
      const auto next =
          all.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(chunk));
      const auto expected = models_[0]->Append(next);
      const auto actual = models_[1]->Append(next);
      ASSERT_TRUE(expected.ok() && actual.ok());
      ExpectLogitsNear(*expected, *actual, 4e-3F,
                       std::string(tested.model) + " after " + std::to_string(done));
      done += chunk;
    }
  }
}

// Forks on one segment, a sequence without one and a prompt, in one step.
TEST_F(UnlikeHeadsTest, SequencesOnOneSegmentAndOthersShareAStep) {
  Load(TinyModelNamed("gemma3_d64_linear"), "f16");
  ASSERT_FALSE(HasFatalFailure());
  Compact({{"f16", "f16"}, {"int8", "int8"}});
  ASSERT_FALSE(HasFatalFailure());
  std::vector<Logits> first;
  std::vector<Logits> second;
  for (const auto& model : models_) {
    KvCache& cache = model->cache();
    std::vector<SequenceId> sequences = {model->sequence()};
    for (int i = 0; i < 4; ++i) sequences.push_back(*cache.Fork(model->sequence()));
    sequences.push_back(*cache.CreateSequence());
    sequences.push_back(*cache.CreateSequence());
    std::vector<std::vector<TokenId>> tokens;
    std::vector<SequenceChunk> chunks;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const int rows = i == 3 ? 40 : i == 5 ? 90 : 1;
      tokens.push_back(RandomTokens(rows, 256, 30 + i));
    }
    for (std::size_t i = 0; i < sequences.size(); ++i) chunks.push_back({sequences[i], tokens[i]});
    for (std::vector<Logits>* step : {&first, &second}) {
      auto logits = model->AppendBatch(chunks);
      ASSERT_TRUE(logits.ok()) << logits.status().message();
      step->push_back(std::move(*logits));
    }
  }
  ExpectLogitsNear(first[0], first[1], 4e-3F, "first step");
  ExpectLogitsNear(second[0], second[1], 4e-3F, "second step");
}

}  // namespace
}  // namespace swiftkv
