// SPDX-License-Identifier: Apache-2.0
// Tests loading and forward passes of tiny models; conformance tests compare logits with libllama.
#include "model/language_model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>

#include "ggml.h"
#include "support/logits.h"
#include "support/paged_model.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

constexpr float kSameMath = 1e-5F;  // one computation in other batch shapes

class LanguageModelTest : public testing::Test {
 protected:
  std::string Write(const RawGguf& gguf, const std::string& name = "model.gguf") {
    const std::string path = directory_.FilePath(name);
    EXPECT_TRUE(WriteBytes(path, SerializeGguf(gguf)).ok());
    return path;
  }

  std::string WriteTiny(const std::string& name) {
    return Write(MakeTinyGguf(TinyModelNamed(name)), name + ".gguf");
  }

  static std::unique_ptr<PagedModel> Load(const std::string& path,
                                          const PagedModelOptions& options = {}) {
    auto model = PagedModel::Load(path, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? std::move(*model) : nullptr;
  }

  static Result<std::unique_ptr<LanguageModel>> TryLoad(const std::string& path) {
    ModelOptions options;
    options.path = path;
    return LanguageModel::Load(options, nullptr);
  }

  TempDirectory directory_;
};

TEST_F(LanguageModelTest, ProgressRisesToOneAndCanCancel) {
  ModelOptions options;
  options.path = WriteTiny("llama_gqa3_d64");
  double last = 0.0;
  const auto model = LanguageModel::Load(options, [&](double done) {
    EXPECT_GE(done, last);
    last = done;
    return true;
  });
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_DOUBLE_EQ(last, 1.0);
  const auto cancelled = LanguageModel::Load(options, [](double) { return false; });
  EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
}

TEST_F(LanguageModelTest, OptionsOutsideTheirRangesAreRefused) {
  ModelOptions options;
  options.path = WriteTiny("llama_gqa3_d64");
  options.context = 1025;
  EXPECT_EQ(LanguageModel::Load(options, nullptr).status().code(), StatusCode::kInvalidArgument);
  options.context = 0;
  options.threads = -1;
  EXPECT_EQ(LanguageModel::Load(options, nullptr).status().code(), StatusCode::kInvalidArgument);
  options.threads = 1;
  options.max_batch_rows = -1;
  EXPECT_EQ(LanguageModel::Load(options, nullptr).status().code(), StatusCode::kInvalidArgument);
  options.max_batch_rows = 1;
  options.linear = "cublas";
  EXPECT_EQ(LanguageModel::Load(options, nullptr).status().code(), StatusCode::kInvalidArgument);
  options.linear = "onednn";
  options.precise = true;
  EXPECT_EQ(LanguageModel::Load(options, nullptr).status().code(), StatusCode::kInvalidArgument);
  options.precise = false;
  options.packed_weights = "plenty";
  EXPECT_EQ(LanguageModel::Load(options, nullptr).status().code(), StatusCode::kInvalidArgument);
  options.packed_weights = "off";
  options.attention_backend = "gpu";
  EXPECT_EQ(LanguageModel::Load(options, nullptr).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(LanguageModelTest, ATensorThatNoDecoderUsesIsRefusedByName) {
  RawGguf gguf = MakeTinyGguf(TinyModelNamed("llama_gqa3_d64"));
  RawGgufTensor extra = gguf.Tensor("output_norm.weight");
  extra.name = "blk.0.attn_sinks.weight";
  gguf.tensors.push_back(extra);
  const auto model = TryLoad(Write(gguf));
  EXPECT_EQ(model.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(model.status().message().find("'blk.0.attn_sinks.weight'"), std::string::npos);
}

TEST_F(LanguageModelTest, MissingAndMisshapenTensorsAreNamed) {
  RawGguf gguf = MakeTinyGguf(TinyModelNamed("qwen3_d128"));
  gguf.RemoveTensor("blk.1.attn_q_norm.weight");
  EXPECT_NE(TryLoad(Write(gguf)).status().message().find("'blk.1.attn_q_norm.weight' is missing"),
            std::string::npos);
  gguf = MakeTinyGguf(TinyModelNamed("qwen3_d128"));
  std::swap(gguf.Tensor("blk.2.ffn_down.weight").shape[0],
            gguf.Tensor("blk.2.ffn_down.weight").shape[1]);
  const auto model = TryLoad(Write(gguf));
  EXPECT_EQ(model.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(model.status().message().find("must have shape 96 x 64"), std::string::npos);
}

TEST_F(LanguageModelTest, NormsInHalfPrecisionAreWidened) {
  RawGguf gguf = MakeTinyGguf(TinyModelNamed("llama_gqa3_d64"));
  const auto whole = Load(Write(gguf, "f32.gguf"));
  RawGgufTensor& norm = gguf.Tensor("output_norm.weight");
  std::vector<float> values(norm.data.size() / sizeof(float));
  std::memcpy(values.data(), norm.data.data(), norm.data.size());
  std::vector<ggml_fp16_t> halves(values.size());
  ggml_fp32_to_fp16_row(values.data(), halves.data(), static_cast<std::int64_t>(values.size()));
  norm.type = kGgufTensorF16;
  norm.data.assign(reinterpret_cast<const char*>(halves.data()), 2 * halves.size());
  const auto narrowed = Load(Write(gguf, "f16.gguf"));
  const auto tokens = RandomTokens(20, 256, 1);
  const auto a = whole->Append(tokens);
  const auto b = narrowed->Append(tokens);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_LT(MaxAbsDifference(a->values, b->values), 1e-2F);
  EXPECT_GT(MaxAbsDifference(a->values, b->values), 0.0F);
}

TEST_F(LanguageModelTest, MappedAndPrivateBytesAreTheWeights) {
  const RawGguf gguf = MakeTinyGguf(TinyModelNamed("llama_gqa3_d64"));
  std::uint64_t bytes = 0;
  for (const RawGgufTensor& tensor : gguf.tensors) bytes += tensor.data.size();
  ModelOptions options;
  options.path = Write(gguf);
  options.use_repacked_weights = false;
  const auto model = LanguageModel::Load(options, nullptr);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ((*model)->memory().mapped_weights_bytes, bytes);
  EXPECT_EQ((*model)->memory().repacked_weights_bytes, 0U);
  EXPECT_GT((*model)->memory().activation_bytes, 0U);
}

TEST_F(LanguageModelTest, OnlyWantedLogitsAreComputedAndTheyAreTheSame) {
  const std::string path = WriteTiny("gemma3_d64_linear");
  const auto tokens = RandomTokens(40, 256, 2);
  const auto whole = Load(path);
  const auto all = whole->Append(tokens);
  ASSERT_TRUE(all.ok());
  for (const int outputs : {0, 1, 3}) {
    const auto paged = Load(path);
    KvCache& cache = paged->cache();
    ASSERT_TRUE(cache.Reserve(paged->sequence(), 40).ok());
    BatchSlice slice;
    slice.sequence = paged->sequence();
    slice.num_rows = 40;
    slice.num_outputs = outputs;
    const auto wanted = paged->model().Forward(&cache, {tokens, std::span(&slice, 1)}, nullptr);
    ASSERT_TRUE(wanted.ok()) << wanted.status().message();
    ASSERT_EQ(wanted->size(), static_cast<std::size_t>(outputs) * 256);
    for (int i = 0; i < outputs; ++i) {
      EXPECT_LT(MaxAbsDifference(wanted->subspan(static_cast<std::size_t>(i) * 256, 256),
                                 all->Row(40 - outputs + i)),
                kSameMath);
    }
    // What follows sees the keys and values of rows without logits.
    cache.Commit(paged->sequence(), 40);
    const auto next = RandomTokens(1, 256, 3);
    const auto ours = paged->Append(next);
    const auto theirs = whole->Append(next);
    ASSERT_TRUE(ours.ok() && theirs.ok());
    EXPECT_LT(MaxAbsDifference(ours->values, theirs->values), kSameMath) << outputs;
    ASSERT_TRUE(whole->Clear().ok());
    ASSERT_TRUE(whole->Append(tokens).ok());
  }
}

TEST_F(LanguageModelTest, SequencesOfOneStepDoNotSeeEachOther) {
  const auto paged = Load(WriteTiny("qwen2_d64_tied"));
  const auto first = RandomTokens(33, 256, 4);
  const auto second = RandomTokens(7, 256, 5);
  const auto alone_first = paged->Append(first);
  ASSERT_TRUE(paged->Clear().ok());
  const auto alone_second = paged->Append(second);
  const SequenceId a = *paged->cache().CreateSequence();
  const SequenceId b = *paged->cache().CreateSequence();
  const SequenceChunk chunks[] = {{a, first}, {b, second}};
  const auto together = paged->AppendBatch(chunks);
  ASSERT_TRUE(alone_first.ok() && alone_second.ok() && together.ok());
  for (int i = 0; i < 33; ++i) {
    EXPECT_LT(MaxAbsDifference(together->Row(i), alone_first->Row(i)), kSameMath);
  }
  for (int i = 0; i < 7; ++i) {
    EXPECT_LT(MaxAbsDifference(together->Row(33 + i), alone_second->Row(i)), kSameMath);
  }
}

TEST_F(LanguageModelTest, ThreadsDoNotChangeTheLogits) {
  const std::string path = WriteTiny("phi3_d64");
  const auto tokens = RandomTokens(50, 256, 6);
  PagedModelOptions one;
  one.threads = 1;
  PagedModelOptions three;
  three.threads = 3;
  const auto a = Load(path, one)->Append(tokens);
  const auto b = Load(path, three)->Append(tokens);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_LT(MaxAbsDifference(a->values, b->values), kSameMath);
}

TEST_F(LanguageModelTest, TheReferenceBackendAgreesWithTheFastOne) {
  const std::string path = WriteTiny("gemma3_d256_tied");
  const auto tokens = RandomTokens(80, 256, 7);
  PagedModelOptions reference;
  reference.attention_backend = "reference";
  const auto slow = Load(path, reference)->Append(tokens);
  const auto fast = Load(path)->Append(tokens);
  ASSERT_TRUE(slow.ok() && fast.ok());
  EXPECT_LT(MaxAbsDifference(slow->values, fast->values), 2e-3F);
}

TEST_F(LanguageModelTest, BadBatchesAreRefusedAndTheNextOneWorks) {
  PagedModelOptions options;
  options.context = 64;
  options.max_chunk = 16;
  const auto paged = Load(WriteTiny("llama_gqa3_d64"), options);
  for (const TokenId bad : {-1, 256, 1 << 30}) {
    const auto refused = paged->Append(std::vector<TokenId>{1, bad});
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find(std::to_string(bad)), std::string::npos);
  }
  EXPECT_EQ(paged->Append(RandomTokens(17, 256, 8)).status().code(), StatusCode::kInvalidArgument);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(paged->Append(RandomTokens(16, 256, 9)).ok());
  const auto full = paged->Append(RandomTokens(1, 256, 10));
  EXPECT_EQ(full.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(full.status().message().find("64"), std::string::npos);
}

TEST_F(LanguageModelTest, ACancelledStepStopsAndTheModelGoesOn) {
  const auto paged = Load(WriteTiny("llama_gqa3_d64"));
  const auto tokens = RandomTokens(30, 256, 11);
  const auto expected = paged->Append(tokens);
  ASSERT_TRUE(paged->Clear().ok());
  ASSERT_TRUE(paged->cache().Reserve(paged->sequence(), 30).ok());
  BatchSlice slice;
  slice.sequence = paged->sequence();
  slice.num_rows = 30;
  slice.num_outputs = 30;
  const ModelBatch batch = {tokens, std::span(&slice, 1)};
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(paged->model().Forward(&paged->cache(), batch, &cancel).status().code(),
            StatusCode::kCancelled);
  const auto again = paged->model().Forward(&paged->cache(), batch, nullptr);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(MaxAbsDifference(*again, expected->values), 0.0F);
}

TEST_F(LanguageModelTest, GraphsOfManyShapesShareOneBufferWithoutMixingUp) {
  const std::string path = WriteTiny("llama_gqa3_d64");
  const auto tokens = RandomTokens(200, 256, 12);
  const auto whole = Load(path)->Append(tokens);
  const auto paged = Load(path);
  int done = 0;
  for (int rows = 1; done + rows <= 200; ++rows) {
    const auto some = paged->Append(
        std::span(tokens).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(rows)));
    ASSERT_TRUE(some.ok()) << some.status().message();
    for (int i = 0; i < rows; ++i) {
      ASSERT_LT(MaxAbsDifference(some->Row(i), whole->Row(done + i)), 1e-4F) << rows;
    }
    done += rows;
  }
}

TEST_F(LanguageModelTest, AFileCutWhileTheModelRunsIsAnErrorAndNoSignal) {
  const std::string path = WriteTiny("llama_gqa3_d64");
  const auto paged = Load(path);
  ASSERT_TRUE(paged->Append(RandomTokens(3, 256, 13)).ok());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const auto cut = paged->Append(RandomTokens(1, 256, 14));
  EXPECT_EQ(cut.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(cut.status().message().find(path), std::string::npos);
}

TEST_F(LanguageModelTest, FingerprintsTellWeightsApart) {
  RawGguf gguf = MakeTinyGguf(TinyModelNamed("llama_gqa3_d64"));
  const auto a = TryLoad(Write(gguf, "a.gguf"));
  const auto same = TryLoad(Write(gguf, "b.gguf"));
  gguf.Tensor("blk.1.ffn_up.weight").data[0] ^= 1;
  const auto other_weights = TryLoad(Write(gguf, "c.gguf"));
  gguf.Tensor("blk.1.ffn_up.weight").data[0] ^= 1;
  gguf.SetKey(GgufF32Key("llama.rope.freq_base", 20000.0F));
  const auto other_rope = TryLoad(Write(gguf, "d.gguf"));
  ASSERT_TRUE(a.ok() && same.ok() && other_weights.ok() && other_rope.ok());
  EXPECT_EQ((*a)->fingerprint().size(), 64U);
  EXPECT_EQ((*a)->fingerprint(), (*same)->fingerprint());
  EXPECT_NE((*a)->fingerprint(), (*other_weights)->fingerprint());
  EXPECT_NE((*a)->fingerprint(), (*other_rope)->fingerprint());
}

}  // namespace
}  // namespace swiftkv
