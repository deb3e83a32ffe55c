// SPDX-License-Identifier: Apache-2.0
// Checks that guides come from the model's own queries and leave the model as it was.
#include "engine/key_guides.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kRoom = 64 << 20;  // more than 100 tokens need

class KeyGuidesTest : public testing::Test {
 protected:
  void Open(const std::string& name, int threads, int max_batch_rows) {
    ModelOptions options;
    options.path = WriteTinyGguf(TinyModelNamed(name), directory_.path()).value();
    options.threads = threads;
    options.context = 256;
    options.max_batch_rows = max_batch_rows;
    options.linear = "ggml";
    model_ = LanguageModel::Load(options, nullptr).value();
    tokens_ = RandomTokens(100, model_->spec().vocab_size, 5);
  }

  KeyGuides Measure() {
    const auto guides = MeasureKeyGuides(model_.get(), tokens_, kRoom, nullptr);
    EXPECT_TRUE(guides.ok()) << guides.status().message();
    return guides.ok() ? **guides : KeyGuides{};
  }

  TempDirectory directory_;
  std::unique_ptr<LanguageModel> model_;
  std::vector<TokenId> tokens_;
};

TEST_F(KeyGuidesTest, EveryHeadOfEveryLayerHasAGuideThatSeesDirections) {
  Open("llama_gqa3_d64", 2, 64);
  const KeyGuides guides = Measure();
  const DecoderSpec& spec = model_->spec();
  ASSERT_EQ(guides.size(), spec.layers.size());
  for (std::size_t layer = 0; layer < guides.size(); ++layer) {
    ASSERT_EQ(guides[layer].size(), static_cast<std::size_t>(spec.layers[layer].kv_heads));
    for (const RoundingGuide& guide : guides[layer]) {
      ASSERT_EQ(guide.weights.size(), static_cast<std::size_t>(spec.head_dim));
      for (const float weight : guide.weights) EXPECT_GT(weight, 0.0F);
      float largest = 0;
      for (const float spread : guide.spread) largest = std::max(largest, std::fabs(spread));
      EXPECT_GT(largest, 0.05F) << "as if queries had no direction, in layer " << layer;
    }
  }
}

TEST_F(KeyGuidesTest, ABoundOnTheCacheCutsTheTextAndATinyOneLeavesNoGuides) {
  Open("llama_gqa3_d64", 2, 64);
  std::uint64_t block = 0;
  for (const LayerShape& layer : model_->layer_shapes()) {
    block += static_cast<std::uint64_t>(16 * layer.kv_heads * layer.head_dim * 2 * 2);
  }
  EXPECT_EQ(GuideTokensWithin(*model_, kRoom), 256) << "the context";
  const std::uint64_t bound = (256 << 10) + 3 * block;
  EXPECT_EQ(GuideTokensWithin(*model_, bound), 48);
  const auto cut = MeasureKeyGuides(model_.get(), tokens_, bound, nullptr).value();
  const auto first = std::span(tokens_).first(48);
  EXPECT_EQ((*cut)[0][0].spread,
            (*MeasureKeyGuides(model_.get(), first, kRoom, nullptr).value())[0][0].spread);
  EXPECT_EQ(MeasureKeyGuides(model_.get(), tokens_, 1000, nullptr).value(), nullptr);
}

TEST_F(KeyGuidesTest, ThreadsAndStepsHardlyMatter) {
  Open("llama_gqa3_d64", 1, 64);
  const KeyGuides one = Measure();
  Open("llama_gqa3_d64", 2, 100);
  const KeyGuides two = Measure();
  for (std::size_t i = 0; i < one[0][0].weights.size(); ++i) {
    EXPECT_NEAR(one[0][0].weights[i], two[0][0].weights[i], 0.01F * one[0][0].weights[i]);
  }
}

TEST_F(KeyGuidesTest, NoTextIsRefused) {
  Open("llama_gqa3_d64", 2, 64);
  EXPECT_EQ(MeasureKeyGuides(model_.get(), {}, kRoom, nullptr).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace swiftkv
