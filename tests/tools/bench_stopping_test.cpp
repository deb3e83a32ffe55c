// SPDX-License-Identifier: Apache-2.0
// Tests that benches end early with what they have when they are told to.
#include <gtest/gtest.h>

#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/tiny_model.h"
#include "tools/bench_attention.h"
#include "tools/bench_model.h"

namespace swiftkv {
namespace {

TEST(BenchStoppingTest, AttentionKeepsTheRowsBeforeTheStop) {
  BenchAttentionOptions options;
  options.formats = {{"f16"}};
  options.head_dims = {{64}};
  options.contexts = {{64}};
  options.batches = {{1, 2}};
  options.shared_tokens = 32;
  options.prefill_contexts = {{32}};
  options.threads = 1;
  options.rounds = 1;
  options.megabytes = 1;
  int calls = 0;
  double last_done = -1;
  const Result<AttentionBenchResult> result =
      RunAttentionBench(options, [&](double done, const AttentionCase&) {
        EXPECT_GT(done, last_done);
        last_done = done;
        return ++calls <= 2;
      });
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->rows.size(), 2U);
  EXPECT_EQ(calls, 3);
  EXPECT_LT(last_done, 1);
}

TEST(BenchStoppingTest, ModelsKeepTheDepthsBeforeTheStop) {
  const TempDirectory directory;
  TinyModel tiny;
  tiny.name = "bench";
  tiny.shape.layers = 2;
  tiny.tokenizer = TinyChatTokenizer(TinyVocabularyKind::kBpe);
  BenchModelOptions options;
  options.model.path = WriteTinyGguf(tiny, directory.path()).value();
  options.model.threads = 1;
  options.formats = {{"f16", "bf16"}};
  options.depths = {{0, 20}};
  options.prefill_tokens = 4;
  options.decode_tokens = 2;
  options.rounds = 1;
  const auto rows_until = [&](const std::string& stop) {
    const Result<ModelBenchResult> result =
        RunModelBench(options, [&](double, const std::string& next) { return next != stop; });
    EXPECT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->architecture, "llama");
    return result->rows.size();
  };
  EXPECT_EQ(rows_until("never"), 4U);
  EXPECT_EQ(rows_until("depth 20"), 2U);
  EXPECT_EQ(rows_until("context of 20"), 0U);
}

}  // namespace
}  // namespace swiftkv
