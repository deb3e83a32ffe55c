// SPDX-License-Identifier: Apache-2.0
// Drives caches with random operations and compares lengths, contents and bytes with a slow model.
//
// The model of a sequence is the list of its tokens' seeds; the seed decides the rows of every
// layer and head. After each operation the cache's invariants are recounted, and every token that a
// query at the end may see is decoded from its page and compared.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "cache/cache_geometries.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

// The value of one channel of one token; exact in every 16-bit format.
float ValueOf(std::uint32_t seed, int layer, int head, int channel, bool is_key) {
  std::uint32_t x = seed * 2654435761U + static_cast<std::uint32_t>(layer) * 40503U +
                    static_cast<std::uint32_t>(head) * 977U +
                    static_cast<std::uint32_t>(channel) * 31U + (is_key ? 17U : 0U);
  x ^= x >> 15;
  return static_cast<float>(static_cast<int>(x % 255) - 127);
}

struct ModelSequence {
  std::vector<std::uint32_t> tokens;  // seeds, from position 0
};

struct PropertyCase {
  TestGeometry geometry;
  std::vector<KvFormat> formats;  // the first is the cache's own; sequences draw from all
  std::uint64_t memory_bytes;
  int operations;

  friend void PrintTo(const PropertyCase& item, std::ostream* out) {
    *out << item.geometry.name << " in " << item.memory_bytes << " bytes";
  }
};

class KvCachePropertyTest : public testing::TestWithParam<PropertyCase> {
 protected:
  void SetUp() override {
    KvCacheOptions options;
    options.layers = GetParam().geometry.layers;
    options.key_format = GetParam().formats[0].key;
    options.value_format = GetParam().formats[0].value;
    options.memory_bytes = GetParam().memory_bytes;
    options.poison_free_frames = true;
    auto cache = KvCache::Create(options);
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    cache_ = std::move(cache).value();
    initial_ = cache_->Balance();
  }

  int Draw(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  SequenceId AnySequence() {
    auto sequence = model_.begin();
    std::advance(sequence, Draw(static_cast<int>(model_.size())));
    return sequence->first;
  }

  void Create() {
    const auto& formats = GetParam().formats;
    const KvFormat& format =
        formats[static_cast<std::size_t>(Draw(static_cast<int>(formats.size())))];
    const auto id =
        format == formats[0] ? cache_->CreateSequence() : cache_->CreateSequence(format);
    if (!id.ok()) {
      EXPECT_EQ(id.status().code(), StatusCode::kResourceExhausted);
      return;
    }
    ASSERT_EQ(model_.count(*id), 0U) << "a live id was handed out again";
    model_[*id] = {};
  }

  void Fork() {
    const SequenceId parent = AnySequence();
    const auto id = cache_->Fork(parent);
    if (!id.ok()) return;
    const ModelSequence copy = model_.at(parent);
    model_[*id] = copy;
    ++forks_;
  }

  void Release() {
    const SequenceId id = AnySequence();
    cache_->Release(id);
    model_.erase(id);
  }

  // Reserves `reserve` tokens, stores them and commits the first `commit`.
  void Step(SequenceId id, int reserve, int commit) {
    const KvBalance before = cache_->Balance();
    const Status status = cache_->Reserve(id, reserve);
    if (!status.ok()) {
      ++refusals_;
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
      ExpectSameBalance(before, cache_->Balance());
      return;
    }
    std::vector<std::uint32_t>& tokens = model_.at(id).tokens;
    std::vector<std::uint32_t> seeds;
    for (int i = 0; i < reserve; ++i) seeds.push_back(static_cast<std::uint32_t>(random_()));
    for (int layer = 0; layer < cache_->num_layers(); ++layer) StoreLayer(id, layer, seeds);
    cache_->Commit(id, commit);
    tokens.insert(tokens.end(), seeds.begin(), seeds.begin() + commit);
  }

  void StoreLayer(SequenceId id, int layer, const std::vector<std::uint32_t>& seeds) {
    const LayerShape& shape = cache_->layer(layer);
    const auto dim = static_cast<std::size_t>(shape.head_dim);
    const std::size_t stride = dim * static_cast<std::size_t>(shape.kv_heads) + 3;
    std::vector<float> keys(stride * seeds.size());
    std::vector<float> values(stride * seeds.size());
    for (std::size_t t = 0; t < seeds.size(); ++t) {
      for (int head = 0; head < shape.kv_heads; ++head) {
        for (int c = 0; c < shape.head_dim; ++c) {
          const std::size_t at = t * stride + static_cast<std::size_t>(head * shape.head_dim + c);
          keys[at] = ValueOf(seeds[t], layer, head, c, true);
          values[at] = ValueOf(seeds[t], layer, head, c, false);
        }
      }
    }
    // Split by heads, as threads would.
    const int middle = shape.kv_heads / 2;
    for (const auto& [first, end] : {std::pair(0, middle), std::pair(middle, shape.kv_heads)}) {
      cache_->StoreRows({.sequence = id,
                         .layer = layer,
                         .first_position = cache_->Length(id),
                         .num_tokens = static_cast<int>(seeds.size()),
                         .first_head = first,
                         .end_head = end,
                         .keys = keys.data(),
                         .values = values.data(),
                         .token_stride = stride});
    }
  }

  void Truncate() {
    const SequenceId id = AnySequence();
    std::vector<std::uint32_t>& tokens = model_.at(id).tokens;
    const int back = Draw(4) == 0 ? Draw(200) : Draw(20);
    const int length = std::max(0, static_cast<int>(tokens.size()) - back);
    const Status status = cache_->Truncate(id, length);
    if (status.ok()) {
      tokens.resize(static_cast<std::size_t>(length));
    } else {
      EXPECT_EQ(status.code(), StatusCode::kUnsupported);
      EXPECT_EQ(cache_->Length(id), static_cast<std::int64_t>(tokens.size()));
    }
  }

  // Decodes what a query at the end sees of one layer and compares it with the model.
  void CheckContents(SequenceId id, int layer) {
    const std::vector<std::uint32_t>& tokens = model_.at(id).tokens;
    const LayerShape& shape = cache_->layer(layer);
    const auto length = static_cast<std::int64_t>(tokens.size());
    ASSERT_EQ(cache_->Length(id), length);
    std::vector<PageRun> runs;
    cache_->AppendRuns(id, layer, 0, &runs);
    std::int64_t next = 0;
    for (const PageRun& run : runs) {
      if (next == 0) {
        const std::int64_t oldest =
            shape.window == 0 ? 0 : std::max<std::int64_t>(0, length - shape.window + 1);
        ASSERT_LE(run.first_position, oldest);
        // No more is kept than a window and the block that it starts in.
        if (shape.window > 0) {
          ASSERT_GT(run.first_position + kPageTokens, oldest);
        }
      } else {
        ASSERT_EQ(run.first_position, next);
      }
      next = run.first_position + run.num_tokens;
      for (int t = 0; t < run.num_tokens; ++t) CheckToken(run, layer, t, tokens);
    }
    ASSERT_EQ(next, length);
  }

  void CheckToken(const PageRun& run, int layer, int t, const std::vector<std::uint32_t>& tokens) {
    const LayerShape& shape = cache_->layer(layer);
    const std::uint32_t seed = tokens[static_cast<std::size_t>(run.first_position + t)];
    std::vector<float> key(static_cast<std::size_t>(shape.head_dim));
    std::vector<float> value(key.size());
    for (int head = 0; head < shape.kv_heads; ++head) {
      const std::byte* const page = run.Page(t / kPageTokens, head);
      const SlotRange slot = {t % kPageTokens, 1};
      run.format.key->Decode(KeyPlane(run.format, run.layout, shape.head_dim, page), slot,
                             key.data(), key.size());
      run.format.value->Decode(ValuePlane(run.format, run.layout, shape.head_dim, page), slot,
                               value.data(), value.size());
      for (int c = 0; c < shape.head_dim; ++c) {
        ASSERT_EQ(key[static_cast<std::size_t>(c)], ValueOf(seed, layer, head, c, true))
            << "position " << run.first_position + t;
        ASSERT_EQ(value[static_cast<std::size_t>(c)], ValueOf(seed, layer, head, c, false));
      }
    }
  }

  static void ExpectSameBalance(const KvBalance& a, const KvBalance& b) {
    EXPECT_EQ(a.live_private_bytes, b.live_private_bytes);
    EXPECT_EQ(a.live_shared_bytes, b.live_shared_bytes);
    EXPECT_EQ(a.free_bytes, b.free_bytes);
    EXPECT_EQ(a.metadata_bytes, b.metadata_bytes);
    EXPECT_EQ(a.mapped_bytes, b.mapped_bytes);
    EXPECT_EQ(a.peak_bytes, b.peak_bytes);
    EXPECT_EQ(a.live_tokens, b.live_tokens);
  }

  void CheckEverything(bool all_contents) {
    cache_->CheckInvariants();
    const KvBalance balance = cache_->Balance();
    ASSERT_LE(balance.peak_bytes, GetParam().memory_bytes);
    std::uint64_t tokens = 0;
    for (const auto& [id, sequence] : model_) {
      tokens += sequence.tokens.size();
      for (int layer = 0; layer < cache_->num_layers(); ++layer) {
        if (all_contents || Draw(cache_->num_layers() * 2) == 0) CheckContents(id, layer);
      }
    }
    ASSERT_EQ(balance.live_tokens, tokens);
  }

  std::mt19937 random_{1};
  std::unique_ptr<KvCache> cache_;
  KvBalance initial_;
  std::map<SequenceId, ModelSequence> model_;
  int forks_ = 0;
  int refusals_ = 0;
};

KvFormat Both(const char* name) { return {name, name}; }

INSTANTIATE_TEST_SUITE_P(
    Geometries, KvCachePropertyTest,
    testing::Values(
        PropertyCase{OneSmallHead(), {Both("f16")}, 200 << 10, 1500},
        PropertyCase{OneSmallHead(), {Both("f32")}, 200 << 10, 1000},
        PropertyCase{OneSmallHead(), {Both("f16"), Both("f32"), {"f32", "f16"}}, 300 << 10, 1200},
        PropertyCase{ThreeHeads(), {Both("bf16")}, 1 << 20, 600},
        PropertyCase{ShortWindow(), {Both("f16")}, 300 << 10, 1200},
        PropertyCase{ShortWindow(), {Both("f32"), Both("bf16"), Both("f16")}, 400 << 10, 1000},
        PropertyCase{AllSliding(), {Both("f16")}, 200 << 10, 1200},
        PropertyCase{EqualFrames(), {Both("bf16")}, 300 << 10, 800},
        PropertyCase{SmolLm2(), {Both("f16")}, 12 << 20, 300},
        PropertyCase{Gemma3(), {Both("f16")}, 14 << 20, 300}),
    [](const auto& instance) {
      std::string name = instance.param.geometry.name;
      for (const KvFormat& format : instance.param.formats) {
        name += "_" + (format.key == format.value ? format.key : format.key + "_" + format.value);
      }
      return name;
    });

TEST_P(KvCachePropertyTest, RandomOperationsKeepContentsCountsAndTheBound) {
  for (int operation = 0; operation < GetParam().operations; ++operation) {
    const int kind = Draw(100);
    if (model_.empty() || kind < 8) {
      Create();
    } else if (kind < 20) {
      Fork();
    } else if (kind < 30) {
      Release();
    } else if (kind < 40) {
      Truncate();
    } else if (kind < 80) {
      Step(AnySequence(), 1, 1);  // decode
    } else if (kind < 95) {
      const int tokens = 1 + Draw(70);
      Step(AnySequence(), tokens, tokens);  // prefill
    } else {
      const int tokens = 1 + Draw(40);
      Step(AnySequence(), tokens, Draw(tokens + 1));  // drafts that were partly refused
    }
    CheckEverything(operation % 16 == 0);
    if (HasFatalFailure()) FAIL() << "after operation " << operation;
  }
  EXPECT_GT(forks_, 0);
  EXPECT_GT(refusals_, 0) << "the bound was never met: the case proves little";
  CheckEverything(true);
  while (!model_.empty()) {
    Release();
    cache_->CheckInvariants();
  }
  const KvBalance end = cache_->Balance();
  if (GetParam().formats.size() == 1) {  // further formats keep their layouts
    EXPECT_EQ(end.mapped_bytes, initial_.mapped_bytes) << "released bytes did not all come back";
  }
  EXPECT_LE(end.metadata_bytes, initial_.metadata_bytes + 4096);
  EXPECT_EQ(end.live_private_bytes + end.live_shared_bytes + end.free_bytes, 0U);
}

}  // namespace
}  // namespace swiftkv
