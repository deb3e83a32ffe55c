// SPDX-License-Identifier: Apache-2.0
// Gathers the queries of tiny models and holds them against RoPE, other chunks and the reference.
#include "model/query_sink.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/recent_queries.h"
#include "support/paged_model.h"
#include "support/temp_directory.h"
#include "support/tiny_gguf.h"
#include "support/token_sequence.h"

namespace swiftkv {
namespace {

// Keeps all rows, and the newest of them as RecentQueries does.
class KeepingSink final : public QuerySink {
 public:
  KeepingSink(const DecoderSpec& spec, int recent)
      : recent_queries(spec, recent), plain(spec.layers.size()), turned(spec.layers.size()) {
    for (const DecoderLayerSpec& layer : spec.layers) {
      row_sizes_.push_back(static_cast<std::size_t>(layer.num_heads) *
                           static_cast<std::size_t>(spec.head_dim));
    }
  }

  void Add(const SliceQueries& queries, int thread, int num_threads) override {
    recent_queries.Add(queries, thread, num_threads);
    if (thread != num_threads - 1) return;
    const auto layer = static_cast<std::size_t>(queries.layer);
    const std::size_t size = row_sizes_[layer];
    for (int i = 0; i < queries.num_rows; ++i) {
      const auto row = static_cast<std::size_t>(i);
      const float* p = queries.plain + row * queries.plain_stride;
      const float* t = queries.turned + row * queries.turned_stride;
      plain[layer][queries.first_position + i].assign(p, p + size);
      turned[layer][queries.first_position + i].assign(t, t + size);
    }
  }

  using Rows = std::map<std::int64_t, std::vector<float>>;  // by position
  RecentQueries recent_queries;
  std::vector<Rows> plain;
  std::vector<Rows> turned;

 private:
  std::vector<std::size_t> row_sizes_;
};

class QuerySinkTest : public testing::Test {
 protected:
  std::unique_ptr<PagedModel> Load(const std::string& name, const PagedModelOptions& options = {}) {
    const std::string path = directory_.FilePath(name + ".gguf");
    EXPECT_TRUE(WriteBytes(path, SerializeGguf(MakeTinyGguf(TinyModelNamed(name)))).ok());
    auto model = PagedModel::Load(path, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? std::move(*model) : nullptr;
  }

  // Appends to the model's sequence without asking for logits.
  static void Prefill(PagedModel* model, std::span<const TokenId> tokens, int chunk,
                      QuerySink* sink) {
    KvCache& cache = model->cache();
    for (std::size_t begin = 0; begin < tokens.size();) {
      const std::size_t rows = std::min(tokens.size() - begin, static_cast<std::size_t>(chunk));
      ASSERT_TRUE(cache.Reserve(model->sequence(), static_cast<int>(rows)).ok());
      BatchSlice slice;
      slice.sequence = model->sequence();
      slice.first_position = cache.Length(model->sequence());
      slice.num_rows = static_cast<int>(rows);
      slice.queries = sink;
      const ModelBatch batch = {tokens.subspan(begin, rows), std::span(&slice, 1)};
      ASSERT_TRUE(model->model().Forward(&cache, batch, nullptr).ok());
      cache.Commit(model->sequence(), slice.num_rows);
      begin += rows;
    }
  }

  TempDirectory directory_;
};

// Turns every head's row by the model's own frequencies.
std::vector<float> Turned(std::vector<float> row, const RopeFrequencies& rope, int head_dim,
                          std::int64_t position) {
  const std::size_t half = rope.frequencies.size();
  const bool split = rope.layout == RopeLayout::kSplitHalf;
  for (std::size_t head = 0; head < row.size(); head += static_cast<std::size_t>(head_dim)) {
    for (std::size_t i = 0; i < half; ++i) {
      float& low = row[head + (split ? i : 2 * i)];
      float& high = row[head + (split ? i + half : 2 * i + 1)];
      const float angle = static_cast<float>(position) * rope.frequencies[i];
      const float a = rope.magnitude * low;
      const float b = rope.magnitude * high;
      low = a * std::cos(angle) - b * std::sin(angle);
      high = a * std::sin(angle) + b * std::cos(angle);
    }
  }
  return row;
}

TEST_F(QuerySinkTest, QueriesOfAllLayersComeBeforeAndAfterRope) {
  for (const TinyModel& tiny : TinyModels()) {
    const std::string& name = tiny.name;
    const auto model = Load(name);
    const DecoderSpec& spec = model->model().spec();
    KeepingSink sink(spec, 8);
    Prefill(model.get(), RandomTokens(37, 256, 3), 37, &sink);
    for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
      ASSERT_EQ(sink.plain[layer].size(), 37U) << name << " layer " << layer;
      for (const auto& [position, row] : sink.plain[layer]) {
        const std::vector<float> expected =
            Turned(row, model->model().rope(static_cast<int>(layer)), spec.head_dim, position);
        const std::vector<float>& actual = sink.turned[layer][position];
        for (std::size_t i = 0; i < actual.size(); ++i) {
          ASSERT_NEAR(actual[i], expected[i], 2e-3F) << name << " layer " << layer << " at " << i;
        }
      }
    }
  }
}

TEST_F(QuerySinkTest, ChunksAndASinkChangeNeitherQueriesNorLogits) {
  const auto model = Load("llama_gqa3_d64");
  const auto tokens = RandomTokens(50, 256, 4);
  const auto next = RandomTokens(3, 256, 5);
  KeepingSink whole(model->model().spec(), 8);
  Prefill(model.get(), tokens, 50, &whole);
  const auto expected = model->Append(next);
  ASSERT_TRUE(model->Clear().ok());
  KeepingSink chunked(model->model().spec(), 8);
  Prefill(model.get(), tokens, 13, &chunked);
  ASSERT_TRUE(model->Clear().ok());
  Prefill(model.get(), tokens, 13, nullptr);
  const auto actual = model->Append(next);
  ASSERT_TRUE(expected.ok() && actual.ok());
  for (std::size_t i = 0; i < actual->values.size(); ++i) {
    ASSERT_NEAR(actual->values[i], expected->values[i], 1e-4F);
  }
  for (std::size_t layer = 0; layer < whole.plain.size(); ++layer) {
    for (const auto& [position, row] : whole.plain[layer]) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        ASSERT_NEAR(chunked.plain[layer][position][i], row[i], 1e-4F) << layer;
      }
    }
  }
}

TEST_F(QuerySinkTest, TheNewestQueriesOfLayersWithoutAWindowAreKeptOverChunks) {
  const auto model = Load("gemma3_d64_linear");
  const DecoderSpec& spec = model->model().spec();
  KeepingSink sink(spec, 12);
  Prefill(model.get(), RandomTokens(40, 256, 6), 9, &sink);
  for (int layer = 0; layer < static_cast<int>(spec.layers.size()); ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    if (spec.layers[at].window > 0) {
      EXPECT_EQ(sink.recent_queries.count(layer), 0);
      continue;
    }
    ASSERT_EQ(sink.recent_queries.count(layer), 12);
    ASSERT_EQ(sink.recent_queries.first_position(layer), 28);
    const std::size_t size = sink.turned[at][28].size();
    std::vector<float> rows(12 * size);
    sink.recent_queries.Copy(layer, rows);
    for (std::size_t i = 0; i < 12; ++i) {
      const std::vector<float> row(rows.begin() + static_cast<std::ptrdiff_t>(i * size),
                                   rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * size));
      EXPECT_EQ(row, sink.turned[at][28 + static_cast<std::int64_t>(i)]) << i;
    }
  }
}

TEST(RecentQueriesTest, RowsThatDoNotFollowReplaceWhatWasHeld) {
  DecoderSpec spec;
  spec.head_dim = 2;
  spec.layers.resize(1);
  spec.layers[0].num_heads = 2;
  RecentQueries recent(spec, 4);
  EXPECT_EQ(recent.count(0), 0);
  std::vector<float> rows(6 * 4);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  const auto add = [&](std::int64_t first, int count) {
    for (int thread = 0; thread < 3; ++thread) {
      recent.Add(
          {.turned = rows.data(), .turned_stride = 4, .first_position = first, .num_rows = count},
          thread, 3);
    }
  };
  add(10, 3);
  EXPECT_EQ(recent.count(0), 3);
  EXPECT_EQ(recent.first_position(0), 10);
  add(13, 2);
  EXPECT_EQ(recent.count(0), 4);
  EXPECT_EQ(recent.first_position(0), 11);
  std::vector<float> held(16);
  recent.Copy(0, held);
  EXPECT_EQ(held, (std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7}));
  add(3, 2);
  EXPECT_EQ(recent.count(0), 2);
  EXPECT_EQ(recent.first_position(0), 3);
  add(5, 6);
  EXPECT_EQ(recent.count(0), 4);
  EXPECT_EQ(recent.first_position(0), 7);
}

// The reference's probabilities, of the same queries over the same pages.
TEST_F(QuerySinkTest, ProbabilitiesOfTheNewestQueriesAreTheReferences) {
  PagedModelOptions slow_options;
  slow_options.attention_backend = "reference";
  const auto fast = Load("llama_gqa3_d64");
  const auto slow = Load("llama_gqa3_d64", slow_options);
  const DecoderSpec& spec = fast->model().spec();
  const auto tokens = RandomTokens(45, 256, 7);
  KeepingSink fast_sink(spec, 10);
  KeepingSink slow_sink(spec, 10);
  Prefill(fast.get(), tokens, 16, &fast_sink);
  Prefill(slow.get(), tokens, 16, &slow_sink);
  for (int layer = 0; layer < static_cast<int>(spec.layers.size()); ++layer) {
    const auto heads =
        static_cast<std::size_t>(spec.layers[static_cast<std::size_t>(layer)].kv_heads);
    const int gqa =
        spec.layers[static_cast<std::size_t>(layer)].num_heads / static_cast<int>(heads);
    std::vector<float> actual(heads * 45, -1.0F);
    std::vector<float> expected(heads * 45, -1.0F);
    ASSERT_TRUE(fast->model()
                    .SumProbabilities(fast->cache(), fast->sequence(), layer,
                                      fast_sink.recent_queries, actual)
                    .ok());
    ASSERT_TRUE(slow->model()
                    .SumProbabilities(slow->cache(), slow->sequence(), layer,
                                      slow_sink.recent_queries, expected)
                    .ok());
    for (std::size_t head = 0; head < heads; ++head) {
      double total = 0;
      for (std::size_t i = 0; i < 45; ++i) {
        total += static_cast<double>(actual[head * 45 + i]);
        EXPECT_NEAR(actual[head * 45 + i], expected[head * 45 + i], 2e-3F) << layer << " " << i;
      }
      EXPECT_NEAR(total, 10.0 * gqa, 1e-3);
      EXPECT_GT(actual[head * 45 + 44], 0.0F) << "the newest query sees its own token";
    }
  }
}

}  // namespace
}  // namespace swiftkv
