// SPDX-License-Identifier: Apache-2.0
// Compares sliding-window models with libllama around every length at which a window begins to
// forget.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
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

// Windows that are a multiple of the page, one more, and less than a page.
TinyModel WindowModel(int window) {
  TinyModel model = TinyModelNamed("gemma3_d64_linear");
  model.name = "gemma3_window_" + std::to_string(window);
  model.window.tokens = window;
  return model;
}

class WindowTest : public testing::TestWithParam<std::tuple<int, std::string>> {
 protected:
  int Window() const { return std::get<0>(GetParam()); }
  const std::string& Format() const { return std::get<1>(GetParam()); }
  float Bound() const { return LogitBound(TinyFamily::kGemma3, Format()); }

  void SetUp() override {
    model_ = WindowModel(Window());
    Result<std::string> path = WriteTinyGguf(model_, directory_.path());
    ASSERT_TRUE(path.ok()) << path.status().message();
    auto oracle = LlamaOracle::Load(*path, {});
    ASSERT_TRUE(oracle.ok()) << oracle.status().message();
    oracle_ = std::move(*oracle);
    PagedModelOptions options;
    options.format = Format();
    auto paged = PagedModel::Load(*path, options);
    ASSERT_TRUE(paged.ok()) << paged.status().message();
    paged_ = std::move(*paged);
  }

  std::vector<int32_t> Tokens(int count) const {
    return RandomTokens(count, model_.shape.vocabulary, 77);
  }

  TinyModel model_;
  std::unique_ptr<LlamaOracle> oracle_;
  std::unique_ptr<PagedModel> paged_;

 private:
  TempDirectory directory_;
};

TEST_P(WindowTest, PromptsAroundTheWindowAndTheTokensAfterThemStayWithinTheBound) {
  const int w = Window();
  for (const int prompt : {w - 1, w, w + 1, 2 * w, 4 * w}) {
    if (prompt < 1 || (kSanitized && prompt > w + 1)) continue;
    const std::vector<int32_t> tokens = Tokens(prompt + 2 * w);
    oracle_->Clear();
    const Result<Logits> expected = oracle_->Append(tokens);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    for (const int chunk : {prompt, 7, 16}) {
      const std::string what =
          "prompt " + std::to_string(prompt) + " chunk " + std::to_string(chunk);
      ASSERT_TRUE(paged_->Clear().ok());
      const std::span<const int32_t> all = tokens;
      Result<Logits> ours =
          AppendInChunks(paged_.get(), all.first(static_cast<size_t>(prompt)), chunk);
      ASSERT_TRUE(ours.ok()) << what << ": " << ours.status().message();
      const Result<Logits> decoded =
          AppendInChunks(paged_.get(), all.subspan(static_cast<size_t>(prompt)), 1);
      ASSERT_TRUE(decoded.ok()) << what << ": " << decoded.status().message();
      ours->rows += decoded->rows;
      ours->values.insert(ours->values.end(), decoded->values.begin(), decoded->values.end());
      ExpectLogitsNear(*expected, *ours, Bound(), what);
      paged_->cache().CheckInvariants();
    }
  }
}

TEST_P(WindowTest, WindowLayersStopGrowing) {
  ASSERT_TRUE(AppendInChunks(paged_.get(), Tokens(4 * Window() + 64), 16).ok());
  const auto held = [&](int layer) {
    std::vector<PageRun> runs;
    paged_->cache().AppendRuns(paged_->sequence(), layer, 0, &runs);
    int pages = 0;
    for (const PageRun& run : runs) pages += run.num_pages;
    return pages;
  };
  const int length = 4 * Window() + 64;
  EXPECT_EQ(held(5), (length + 15) / 16);        // the sixth layer is global
  EXPECT_LE(held(0), (Window() + 15) / 16 + 1);  // what the window needs, plus its partial page
}

INSTANTIATE_TEST_SUITE_P(Windows, WindowTest,
                         testing::Combine(testing::Values(8, 32, 33, 47),
                                          testing::Values("f32", "f16")),
                         [](const auto& row) {
                           std::string name = "w";
                           name += std::to_string(std::get<0>(row.param));
                           name += "_";
                           name += std::get<1>(row.param);
                           return name;
                         });

}  // namespace
}  // namespace swiftkv
