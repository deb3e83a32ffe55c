// SPDX-License-Identifier: Apache-2.0
// Compares our logits with libllama's on tiny models of every family, for every way to cut a prompt
// into chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "model/linear_backend.h"
#include "support/conformance_bounds.h"
#include "support/llama_oracle.h"
#include "support/paged_model.h"
#include "support/sanitizers.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

// Not a multiple of 16, so the last page is partial; LongRoPE's short factors need a context of
// 256.
constexpr int kPositions = 231;

// One tiny model on disk, its tokens and the oracle's verdict: made once for all cases that share
// it.
struct JudgedModel {
  std::string path;
  std::vector<int32_t> tokens;
  Logits oracle;
};

class LogitsTest : public testing::TestWithParam<std::tuple<TinyModel, std::string>> {
 protected:
  static void SetUpTestSuite() { directory_ = std::make_unique<TempDirectory>(); }
  static void TearDownTestSuite() {
    judged_.clear();
    directory_.reset();
  }

  const TinyModel& Model() const { return std::get<0>(GetParam()); }
  const std::string& Format() const { return std::get<1>(GetParam()); }
  float Bound() const { return LogitBound(Model().family, Format()); }

  // Fails the test and returns an empty verdict where libllama does not serve.
  const JudgedModel& Judged() {
    JudgedModel& judged = judged_[Model().name];
    if (judged.oracle.rows > 0) return judged;
    Result<std::string> path = WriteTinyGguf(Model(), directory_->path());
    EXPECT_TRUE(path.ok()) << path.status().message();
    judged.path = *path;
    judged.tokens = RandomTokens(kPositions, Model().shape.vocabulary, Model().seed);
    auto oracle = LlamaOracle::Load(judged.path, {.context = Model().open_context});
    EXPECT_TRUE(oracle.ok()) << oracle.status().message();
    Result<Logits> logits = (*oracle)->Append(judged.tokens);
    EXPECT_TRUE(logits.ok()) << logits.status().message();
    judged.oracle = std::move(*logits);
    return judged;
  }

  std::unique_ptr<PagedModel> Open(const std::string& backend = "cpu",
                                   const std::string& linear = "ggml") {
    PagedModelOptions options;
    options.linear = linear;
    options.format = Format();
    options.context = Model().open_context;
    options.attention_backend = backend;
    auto paged = PagedModel::Load(Judged().path, options);
    EXPECT_TRUE(paged.ok()) << paged.status().message();
    return paged.ok() ? std::move(*paged) : nullptr;
  }

 private:
  static std::unique_ptr<TempDirectory> directory_;
  static std::map<std::string, JudgedModel> judged_;
};

std::unique_ptr<TempDirectory> LogitsTest::directory_;
std::map<std::string, JudgedModel> LogitsTest::judged_;

TEST_P(LogitsTest, EveryChunkingStaysWithinTheBound) {
  const JudgedModel& judged = Judged();
  const auto paged = Open();
  ASSERT_NE(paged, nullptr);
  for (const int chunk : {kPositions, 1, 7, 16, 17, 64}) {
    ASSERT_TRUE(paged->Clear().ok());
    const Result<Logits> ours = AppendInChunks(paged.get(), judged.tokens, chunk);
    ASSERT_TRUE(ours.ok()) << "chunk " << chunk << ": " << ours.status().message();
    ExpectLogitsNear(judged.oracle, *ours, Bound(), "chunk " + std::to_string(chunk));
    paged->cache().CheckInvariants();
  }
}

TEST_P(LogitsTest, TheReferenceBackendStaysWithinTheBound) {
  const JudgedModel& judged = Judged();
  const auto paged = Open("reference");
  ASSERT_NE(paged, nullptr);
  const Result<Logits> ours = AppendInChunks(paged.get(), judged.tokens, 50);
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  ExpectLogitsNear(judged.oracle, *ours, Bound(), "reference");
}

TEST_P(LogitsTest, EveryLinearBackendStaysWithinTheBound) {
  const JudgedModel& judged = Judged();
  for (const LinearBackendRow& backend : AllLinearBackends()) {
    const auto paged = Open("cpu", backend.name);
    ASSERT_NE(paged, nullptr);
    for (const int chunk : {kPositions, 1, 3, 20}) {
      if (kSanitized && chunk < 20) continue;  // a step of each length ran above
      ASSERT_TRUE(paged->Clear().ok());
      const Result<Logits> ours = AppendInChunks(paged.get(), judged.tokens, chunk);
      ASSERT_TRUE(ours.ok()) << ours.status().message();
      const float bound = RoundsFloats(backend) ? kBf16LogitBound : Bound();
      ExpectLogitsNear(judged.oracle, *ours, bound,
                       std::string(backend.name) + ", chunk " + std::to_string(chunk));
    }
  }
}

// A prefill, a decode and a chunk in the middle of a prompt share a step; nobody may notice the
// others.
TEST_P(LogitsTest, SequencesInOneBatchStayWithinTheBound) {
  const JudgedModel& judged = Judged();
  const auto paged = Open();
  ASSERT_NE(paged, nullptr);
  const std::vector<int32_t>& tokens = judged.tokens;
  const auto span = [&](int begin, int count) {
    return std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
  };
  Result<SequenceId> second = paged->cache().CreateSequence();
  Result<SequenceId> third = paged->cache().CreateSequence();
  ASSERT_TRUE(second.ok() && third.ok());
  ASSERT_TRUE(paged->Append(span(0, 100)).ok());
  const std::vector<SequenceChunk> warm = {{*second, span(0, 45)}};
  ASSERT_TRUE(paged->AppendBatch(warm).ok());
  const std::vector<SequenceChunk> mixed = {
      {paged->sequence(), span(100, 1)}, {*second, span(45, 30)}, {*third, span(0, 61)}};
  const Result<Logits> ours = paged->AppendBatch(mixed);
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  Logits expected;
  expected.rows = ours->rows;
  expected.vocabulary = judged.oracle.vocabulary;
  const auto add = [&](int begin, int count) {
    for (int row = begin; row < begin + count; ++row) {
      const auto values = judged.oracle.Row(row);
      expected.values.insert(expected.values.end(), values.begin(), values.end());
    }
  };
  add(100, 1);
  add(45, 30);
  add(0, 61);
  ExpectLogitsNear(expected, *ours, Bound(), "mixed batch");
}

// Two branches share a prompt physically; each must go on as if it were alone.
TEST_P(LogitsTest, AForkedSequenceStaysWithinTheBound) {
  const JudgedModel& judged = Judged();
  const auto paged = Open();
  ASSERT_NE(paged, nullptr);
  const std::span<const int32_t> tokens = judged.tokens;
  ASSERT_TRUE(paged->Append(tokens.first(120)).ok());
  Result<SequenceId> fork = paged->cache().Fork(paged->sequence());
  ASSERT_TRUE(fork.ok()) << fork.status().message();
  // The parent goes another way first, so that a shared tail written in place would show.
  std::vector<int32_t> other(tokens.begin() + 120, tokens.begin() + 150);
  std::reverse(other.begin(), other.end());
  ASSERT_TRUE(paged->Append(other).ok());
  const std::vector<SequenceChunk> chunks = {{*fork, tokens.subspan(120)}};
  const Result<Logits> ours = paged->AppendBatch(chunks);
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  Logits expected;
  expected.rows = kPositions - 120;
  expected.vocabulary = judged.oracle.vocabulary;
  expected.values.assign(judged.oracle.values.begin() + 120L * expected.vocabulary,
                         judged.oracle.values.end());
  ExpectLogitsNear(expected, *ours, Bound(), "fork");
  paged->cache().CheckInvariants();
}

INSTANTIATE_TEST_SUITE_P(Families, LogitsTest,
                         testing::Combine(testing::ValuesIn(TinyModels()),
                                          testing::Values("f32", "f16")),
                         [](const auto& row) {
                           return std::get<0>(row.param).name + "_" + std::get<1>(row.param);
                         });

}  // namespace
}  // namespace swiftkv
