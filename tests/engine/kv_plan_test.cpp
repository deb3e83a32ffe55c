// SPDX-License-Identifier: Apache-2.0
// Holds planned bytes to what a cache of the same layers holds and admits.
#include "engine/kv_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/kv_memory.h"
#include "formats/page_format_table.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

constexpr std::int64_t kLengths[] = {1, 15, 16, 17, 127, 145, 160, 161, 300, 511, 512, 513, 700};

std::vector<LayerShape> Layers(int windowed, int full) {
  std::vector<LayerShape> layers(static_cast<std::size_t>(windowed),
                                 {.kv_heads = 1, .head_dim = 32, .window = 100});
  layers.insert(layers.end(), static_cast<std::size_t>(full),
                {.kv_heads = 2, .head_dim = 64, .window = 0});
  return layers;
}

std::vector<PlanLayer> Planned(const std::vector<LayerShape>& layers) {
  std::vector<PlanLayer> planned;
  for (const LayerShape& layer : layers) {
    planned.push_back({.kv_heads = layer.kv_heads,
                       .key_dim = layer.head_dim,
                       .value_dim = layer.head_dim,
                       .window = layer.window});
  }
  return planned;
}

std::unique_ptr<KvCache> MakeCache(const std::vector<LayerShape>& layers, const PageFormat& format,
                                   std::uint64_t bytes) {
  KvCacheOptions options;
  options.layers = layers;
  options.key_format = format.key->info().name;
  options.value_format = format.value->info().name;
  options.memory_bytes = bytes;
  options.huge_pages = false;
  return KvCache::Create(options).value();
}

// Grows a sequence token by token, or in steps, without values: only bytes are looked at. False
// where the bound was met.
bool Grow(KvCache* cache, SequenceId sequence, std::int64_t tokens, int step) {
  for (std::int64_t length = cache->Length(sequence); length < tokens;) {
    const int count = static_cast<int>(std::min<std::int64_t>(step, tokens - length));
    if (!cache->Reserve(sequence, count).ok()) return false;
    cache->Commit(sequence, count);
    length += count;
  }
  return true;
}

TEST(KvPlanTest, ARequestTakesTheFramesThatTheCacheHolds) {
  for (const auto& layers : {Layers(0, 6), Layers(5, 1), Layers(3, 3), Layers(6, 0)}) {
    for (const NamedPageFormat& format : AllPageFormats()) {
      SCOPED_TRACE(format.name);
      const KvPlan plan = KvPlan::Make(Planned(layers), format.format).value();
      for (const std::int64_t tokens : kLengths) {
        const auto cache = MakeCache(layers, format.format, 64 << 20);
        const SequenceId sequence = cache->CreateSequence().value();
        ASSERT_TRUE(Grow(cache.get(), sequence, tokens, 1));
        EXPECT_EQ(plan.RequestBytes({.tokens = tokens}), cache->Balance().live_private_bytes)
            << tokens;
        EXPECT_EQ(plan.ReservedBytes(tokens), cache->contiguous_bytes(tokens)) << tokens;
        EXPECT_EQ(plan.TokenBytes(), cache->bytes_per_token());
      }
    }
  }
}

TEST(KvPlanTest, ACacheAdmitsWhatIsPlannedAndHardlyMore) {
  for (const auto& layers : {Layers(0, 6), Layers(5, 1), Layers(6, 6)}) {
    for (const char* name : {"f16", "int8", "int4"}) {
      const PageFormat format = FindPageFormat(name).value();
      const KvPlan plan = KvPlan::Make(Planned(layers), format).value();
      for (const std::int64_t tokens : {40, 600}) {
        SCOPED_TRACE(std::string(name) + " " + std::to_string(tokens));
        const std::uint64_t bytes = 24 << 20;
        const auto cache = MakeCache(layers, format, bytes);
        std::int64_t admitted = 0;
        while (Grow(cache.get(), cache->CreateSequence().value(), tokens, 512)) ++admitted;
        const std::int64_t planned = plan.RequestsWithin({.tokens = tokens}, bytes);
        EXPECT_GT(planned, 0);
        EXPECT_LE(planned, admitted);
        EXPECT_GE(static_cast<double>(planned), 0.93 * static_cast<double>(admitted) - 1);
      }
    }
  }
}

TEST(KvPlanTest, ASharedPrefixIsPaidForOnce) {
  const std::vector<LayerShape> layers = Layers(0, 6);
  for (const char* name : {"f16", "int4"}) {
    SCOPED_TRACE(name);
    const PageFormat format = FindPageFormat(name).value();
    const KvPlan plan = KvPlan::Make(Planned(layers), format).value();
    const std::uint64_t bytes = 24 << 20;
    const auto cache = MakeCache(layers, format, bytes);
    const SequenceId parent = cache->CreateSequence().value();
    ASSERT_TRUE(Grow(cache.get(), parent, 1000, 512));
    std::int64_t admitted = 0;
    while (Grow(cache.get(), cache->Fork(parent).value(), 1200, 200)) ++admitted;
    const std::int64_t planned =
        plan.RequestsWithin({.tokens = 1200, .prefix_tokens = 1000}, bytes);
    EXPECT_GT(planned, 2 * plan.RequestsWithin({.tokens = 1200}, bytes));
    EXPECT_LE(planned, admitted);
    EXPECT_GE(static_cast<double>(planned), 0.93 * static_cast<double>(admitted) - 1);
  }
}

TEST(KvPlanTest, TheLongestContextFitsAndOneTokenMoreDoesNot) {
  const KvPlan plan = KvPlan::Make(Planned(Layers(5, 1)), FindPageFormat("int4").value()).value();
  const std::uint64_t bytes = 16 << 20;
  const PlannedRequest wish = {.tokens = 1 << 24, .prefix_tokens = 64};
  PlannedRequest request = wish;
  request.tokens = plan.TokensWithin(wish, 3, bytes);
  ASSERT_LT(request.tokens, wish.tokens);
  EXPECT_LE(plan.BoundFor(request, 3), bytes);
  ++request.tokens;
  EXPECT_GT(plan.BoundFor(request, 3), bytes);
  EXPECT_EQ(plan.TokensWithin(wish, 3, 0), 0);
  EXPECT_EQ(plan.TokensWithin({.tokens = 500}, 1, std::uint64_t{1} << 40), 500);
}

TEST(KvPlanTest, ARowOfLatentsHasAPlaneOfKeysAndNothingElse) {
  const PlanLayer latent = {.kv_heads = 1, .key_dim = 576, .value_dim = 0, .window = 0};
  const std::vector<PlanLayer> layers(61, latent);
  const KvPlan f16 = KvPlan::Make(layers, FindPageFormat("f16").value()).value();
  EXPECT_EQ(f16.TokenBytes(), 61 * 576 * 2);
  const KvPlan int8 = KvPlan::Make(layers, FindPageFormat("int8").value()).value();
  EXPECT_EQ(int8.RequestBytes({.tokens = 16}), 61 * (576 * 16 + 64));
}

TEST(KvPlanTest, WhatAPolicyRemovesIsCountedInWholePagesOfFullLayers) {
  const KvPlan plan = KvPlan::Make(Planned(Layers(1, 1)), FindPageFormat("f16").value()).value();
  const KvPlan full = KvPlan::Make(Planned(Layers(0, 1)), FindPageFormat("f16").value()).value();
  const KvPlan window = KvPlan::Make(Planned(Layers(1, 0)), FindPageFormat("f16").value()).value();
  EXPECT_EQ(plan.RequestBytes({.tokens = 1000, .removed = 0.75}),
            full.RequestBytes({.tokens = 250}) + window.RequestBytes({.tokens = 1000}));
  EXPECT_EQ(plan.GrowthBytes(0.5), full.TokenBytes() / 2);
}

TEST(KvPlanTest, SumsThatPassSixtyFourBitsFitNowhere) {
  const std::vector<PlanLayer> layers(512, {.kv_heads = 1024, .key_dim = 1024, .value_dim = 1024});
  const KvPlan plan = KvPlan::Make(layers, FindPageFormat("f32").value()).value();
  EXPECT_EQ(plan.RequestsWithin({.tokens = 1 << 27}, std::uint64_t{1} << 40), 0);
  EXPECT_GT(plan.TokensWithin({.tokens = 1 << 27}, 1024, std::uint64_t{1} << 50), 0);
}

TEST(KvPlanTest, RowsThatNoFormatServesAreRefused) {
  const std::vector<PlanLayer> layers(1, {.kv_heads = 1, .key_dim = 100, .value_dim = 100});
  const auto plan = KvPlan::Make(layers, FindPageFormat("f16").value());
  ASSERT_FALSE(plan.ok());
  EXPECT_TRUE(plan.status().message().ends_with("100")) << plan.status().message();
}

}  // namespace
}  // namespace swiftkv
