// SPDX-License-Identifier: Apache-2.0
// Tests the arithmetic of tokens and bytes against counting page by page.
#include "engine/kv_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace swiftkv {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

// Two full layers and one that sees 40 tokens.
std::vector<LayerShape> MixedLayers() {
  return {{.kv_heads = 2, .head_dim = 64, .window = 0},
          {.kv_heads = 1, .head_dim = 64, .window = 40},
          {.kv_heads = 2, .head_dim = 64, .window = 0}};
}

// K and V of f16.
std::uint64_t TokenBytesOf(const LayerShape& layer) {
  return static_cast<std::uint64_t>(layer.kv_heads * layer.head_dim) * 2 * 2;
}

TEST(KvFootprintTest, FilledAndMappedBytesAreThoseOfCountingSlots) {
  const KvFootprint footprint = KvFootprint::Make(MixedLayers(), "f16", "f16").value();
  EXPECT_EQ(footprint.TokenBytes(), 5U * 64 * 4);
  for (std::int64_t tokens = 0; tokens <= 130; ++tokens) {
    std::uint64_t filled = 0;
    std::uint64_t pages = 0;
    for (const LayerShape& layer : MixedLayers()) {
      const std::int64_t span = layer.window > 0 ? layer.window : tokens;
      std::int64_t layer_pages = 0;
      for (std::int64_t token = 0; token < tokens && token < span; ++token) {
        filled += TokenBytesOf(layer);
        if (token % 16 == 0) ++layer_pages;
      }
      pages += static_cast<std::uint64_t>(layer_pages) * 16 * TokenBytesOf(layer);
    }
    ASSERT_EQ(footprint.FilledBytes(tokens), filled) << tokens;
    ASSERT_EQ(footprint.PageBytes(tokens), pages) << tokens;
  }
}

TEST(KvFootprintTest, TokensWithinIsTheLastCountThatFits) {
  const KvFootprint footprint = KvFootprint::Make(MixedLayers(), "f16", "f32").value();
  for (const std::uint64_t bytes : {0U, 1U, 20000U, 100000U, 1U << 20, 1U << 30}) {
    const std::int64_t tokens = footprint.TokensWithin(bytes);
    EXPECT_LE(footprint.PageBytes(tokens), bytes);
    EXPECT_GT(footprint.PageBytes(tokens + 1), bytes);
  }
}

// Counts the slots of a sequence of six layers of one head with 64 channels in int8 keys and int4
// values: block by block, as the cache seals them.
TEST(KvFootprintTest, OldBlocksOfFewBitsAreCountedAsTheyAreReencoded) {
  constexpr std::uint64_t kOpenToken = 6 * (4 + 64 + 64);  // a scale is an f16
  constexpr std::uint64_t kSealedToken = 4 * (4 + 64 + 64) + 2 * (4 + 64 + 32);
  const std::vector<LayerShape> layers(6, {.kv_heads = 1, .head_dim = 64, .window = 0});
  const KvFootprint footprint = KvFootprint::Make(layers, "int8", "int4").value();
  EXPECT_TRUE(footprint.ShrinksWithAge());
  EXPECT_EQ(footprint.TokenBytes(), kSealedToken);
  std::uint64_t most = 0;
  for (std::int64_t tokens = 1; tokens <= 1000; ++tokens) {
    std::uint64_t filled = 0;
    std::uint64_t pages = 0;  // before the last token was counted, and may have sealed a block
    for (std::int64_t block = 0; block * 16 < tokens; ++block) {
      const auto slots =
          static_cast<std::uint64_t>(std::min<std::int64_t>(16, tokens - block * 16));
      const auto is_sealed = [&](std::int64_t length) {
        return block > 0 && (block + 1) * 16 <= length - 128;
      };
      filled += slots * (is_sealed(tokens) ? kSealedToken : kOpenToken);
      pages += 16 * (is_sealed(tokens - 1) ? kSealedToken : kOpenToken);
    }
    most = std::max(most, pages);
    ASSERT_EQ(footprint.FilledBytes(tokens), filled) << tokens;
    ASSERT_EQ(footprint.PageBytes(tokens), most) << tokens;
    ASSERT_DOUBLE_EQ(footprint.BitsPerValue(tokens),
                     8.0 * static_cast<double>(filled) / static_cast<double>(tokens * 6 * 128));
  }
  EXPECT_FALSE(KvFootprint::Make(layers, "int8", "int8").value().ShrinksWithAge());
  const std::vector<LayerShape> few(4, layers[0]);
  EXPECT_FALSE(KvFootprint::Make(few, "int4", "int4").value().ShrinksWithAge())
      << "the guard rails keep all of four layers";
}

TEST(KvFootprintTest, WindowLayersNeverNeedMoreThanPageBytesSays) {
  const std::vector<LayerShape> layers(6, {.kv_heads = 1, .head_dim = 64, .window = 400});
  const KvFootprint footprint = KvFootprint::Make(layers, "int4", "int4").value();
  std::uint64_t before = 0;
  for (std::int64_t tokens = 1; tokens <= 2000; ++tokens) {
    ASSERT_GE(footprint.PageBytes(tokens), before) << tokens;
    ASSERT_GE(footprint.PageBytes(tokens), footprint.FilledBytes(tokens)) << tokens;
    before = footprint.PageBytes(tokens);
  }
  EXPECT_EQ(footprint.FilledBytes(2000), footprint.FilledBytes(2016));
  EXPECT_LT(footprint.FilledBytes(2000), footprint.FilledBytes(400));  // block 0 has left
}

TEST(KvFootprintTest, ReservationsTakeWholeBlocksOfEveryLayerAsTheyAreWritten) {
  const std::vector<LayerShape> layers = {{2, 64, 0}, {2, 64, 32}};
  const KvFootprint footprint = KvFootprint::Make(layers, "f16", "f16").value();
  const std::uint64_t page = 2 * 2 * 64 * 16 * 2;  // heads, K and V, channels, tokens, bytes
  EXPECT_EQ(footprint.ReservedBytes(0), 0U);
  EXPECT_EQ(footprint.ReservedBytes(1), 2 * page);
  EXPECT_EQ(footprint.ReservedBytes(1000), 2 * 63 * page);
  EXPECT_LT(footprint.PageBytes(1000), footprint.ReservedBytes(1000));
}

TEST(KvFootprintTest, UnknownFormatsAreRefused) {
  EXPECT_EQ(KvFootprint::Make(MixedLayers(), "f16", "f17").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(AutomaticKvBytesTest, WeightsActivationsAndHeadroomAreKeptBack) {
  const ModelMemory model = {.mapped_weights_bytes = 100 * kMiB,
                             .repacked_weights_bytes = 900 * kMiB,  // no longer available anyway
                             .activation_bytes = 50 * kMiB};
  EXPECT_EQ(AutomaticKvBytes(16150 * kMiB, model), 15000 * kMiB);
  EXPECT_EQ(AutomaticKvBytes(350 * kMiB, model), 136 * kMiB);
  EXPECT_EQ(AutomaticKvBytes(200 * kMiB, model), 0U);
  EXPECT_EQ(AutomaticKvBytes(0, model), 0U);
}

TEST(AutomaticKvBytesTest, TouchedActivationsAreMissingFromWhatIsAvailableAndCountOnce) {
  const ModelMemory model = {.mapped_weights_bytes = 100 * kMiB,
                             .packed_weights_bytes = 500 * kMiB,  // in memory by then
                             .activation_bytes = 50 * kMiB,
                             .touched_activation_bytes = 30 * kMiB};
  const AutomaticKvMemory memory = DivideMemory(16120 * kMiB, model);
  EXPECT_EQ(memory.available_bytes, 16120 * kMiB);
  EXPECT_EQ(memory.weights_bytes, 100 * kMiB);
  EXPECT_EQ(memory.activation_bytes, 20 * kMiB);
  EXPECT_EQ(memory.headroom_bytes, 1000 * kMiB);
  EXPECT_EQ(memory.bytes, 15000 * kMiB);
}

TEST(KeyGuideBytesTest, EveryHeadHasASquareAndARowOfFloats) {
  EXPECT_EQ(KeyGuideBytes(MixedLayers()), 5U * (64 * 64 + 64) * 4);
  EXPECT_EQ(KeyGuideBytes({}), 0U);
}

TEST(ResolveKvBytesTest, AGivenSizeIsTakenAsItIs) {
  EXPECT_EQ(ResolveKvBytes({.automatic = false, .bytes = 12345}, {}).value(), 12345U);
  EXPECT_GT(ResolveKvBytes({}, {}).value(), 0U);
  EXPECT_EQ(ResolveKvBytes({}, {.mapped_weights_bytes = ~0ULL}).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace swiftkv
