// SPDX-License-Identifier: Apache-2.0
// Tests that rewritten weights are the same model, and that nothing of them stays behind.
#include "model/f16_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "model/language_model.h"
#include "support/llama_oracle.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;

class F16WeightsTest : public testing::Test {
 protected:
  void SetUp() override {
    TinyModel model = TinyModelNamed("llama_gqa3_d64");
    model.tokenizer = TinyChatTokenizer(TinyVocabularyKind::kBpe);
    plain_ = WriteTinyGguf(model, directory_.path()).value();
    rounded_ = directory_.FilePath("q8.gguf");
    ASSERT_TRUE(RewriteWeights(plain_, rounded_, OracleWeights::kQ8_0).ok());
    std::filesystem::create_directory(Folder());
  }

  std::string Folder() const { return directory_.FilePath("temporary"); }

  TempDirectory directory_;
  std::string plain_;    // F32
  std::string rounded_;  // Q8_0
};

TEST_F(F16WeightsTest, WeightsThatRoundAreToldFromThoseThatDoNot) {
  EXPECT_TRUE(HasUnroundedWeights(*GgufFile::Open(plain_).value()));
  EXPECT_FALSE(HasUnroundedWeights(*GgufFile::Open(rounded_).value()));
}

TEST_F(F16WeightsTest, TheRewrittenFileHasTheSameTensorsWithoutRounding) {
  const auto file = GgufFile::Open(rounded_).value();
  auto weights = F16Weights::Write(*file, Folder(), 2);
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  const auto rewritten = GgufFile::Open((*weights)->path());
  ASSERT_TRUE(rewritten.ok()) << rewritten.status().message();
  EXPECT_TRUE(HasUnroundedWeights(**rewritten));
  ASSERT_EQ((*rewritten)->tensors().size(), file->tensors().size());
  for (const GgufTensor& tensor : file->tensors()) {
    const GgufTensor* other = (*rewritten)->FindTensor(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(other->shape, tensor.shape) << tensor.name;
  }
  EXPECT_LE((*rewritten)->file_bytes(), F16FileBytes(*file));
}

TEST_F(F16WeightsTest, AModelLoadedFromItOutlivesItAndNoFileIsEverSeen) {
  const auto file = GgufFile::Open(rounded_).value();
  auto weights = F16Weights::Write(*file, Folder(), 2).value();
  EXPECT_TRUE(std::filesystem::is_empty(Folder()));
  ModelOptions options;
  options.path = weights->path();
  options.context = 64;
  const auto model = LanguageModel::Load(options, nullptr);
  ASSERT_TRUE(model.ok()) << model.status().message();
  weights.reset();
  KvCacheOptions cache_options;
  cache_options.layers = (*model)->layer_shapes();
  cache_options.memory_bytes = 16U << 20;
  const auto cache = KvCache::Create(cache_options).value();
  const SequenceId sequence = cache->CreateSequence().value();
  ASSERT_TRUE(cache->Reserve(sequence, 1).ok());
  const TokenId token = 1;
  const BatchSlice slice = {.sequence = sequence, .num_rows = 1, .num_outputs = 1};
  EXPECT_TRUE((*model)->Forward(cache.get(), {{&token, 1}, {&slice, 1}}, nullptr).ok());
}

TEST_F(F16WeightsTest, AFolderThatTakesNoFilesIsNamed) {
  const auto file = GgufFile::Open(rounded_).value();
  const auto weights = F16Weights::Write(*file, directory_.FilePath("absent"), 2);
  EXPECT_EQ(weights.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(weights.status().message(), HasSubstr("absent"));
}

TEST_F(F16WeightsTest, AVolumeWithoutRoomIsToldBeforeAnythingIsWritten) {
  // The kernel's own file systems have no free blocks.
  const auto file = GgufFile::Open(rounded_).value();
  const auto weights = F16Weights::Write(*file, "/proc", 2);
  EXPECT_EQ(weights.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(weights.status().message(), HasSubstr("room"));
}

}  // namespace
}  // namespace swiftkv
