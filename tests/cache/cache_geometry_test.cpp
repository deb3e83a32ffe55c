// SPDX-License-Identifier: Apache-2.0
// Checks groups, frames and windows against docs/page_format.md.
#include "cache/cache_geometry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cache/block_layout.h"
#include "cache/cache_geometries.h"

namespace swiftkv {
namespace {

CacheGeometry GeometryOf(const TestGeometry& test) {
  return CacheGeometry::For(test.layers).value();
}

BlockLayout LayoutOf(const TestGeometry& test, const char* key, const char* value) {
  return BlockLayout::For(GeometryOf(test), FormatMap::Uniform(test.layers, key, value).value());
}

TEST(CacheGeometryTest, LayersOfOneSpanAndShapeShareAGroup) {
  const CacheGeometry gemma = GeometryOf(Gemma3());
  ASSERT_EQ(gemma.groups.size(), 2U);
  EXPECT_EQ(gemma.groups[0].layers.size(), 15U);  // sliding ones come first in the model
  EXPECT_EQ(gemma.window(0), 512);
  EXPECT_EQ(gemma.groups[1].layers, (std::vector<int>{5, 11, 17}));
  EXPECT_EQ(gemma.window(1), 0);
  EXPECT_EQ(gemma.values_per_token(0), 15U * 2 * 256);
  EXPECT_EQ(LayoutOf(Gemma3(), "f16", "f16").frame_bytes,
            (std::vector<std::size_t>{15 * 16384, 3 * 16384}));
}

TEST(CacheGeometryTest, SmolLm2HasThePageAndFrameThatTheDocumentStates) {
  const BlockLayout smollm2 = LayoutOf(SmolLm2(), "f16", "f16");
  EXPECT_EQ(smollm2.places[0].layout.bytes, 4096U);
  EXPECT_EQ(smollm2.frame_bytes, (std::vector<std::size_t>{368640}));
  EXPECT_EQ(smollm2.places[7].layer_offset, 7U * 3 * 4096);
  EXPECT_EQ(smollm2.places[7].head_stride, 4096U);
}

TEST(CacheGeometryTest, PagesFillAFrameWithoutGapOrOverlapWhateverTheFormats) {
  for (const TestGeometry& test : {ThreeHeads(), ShortWindow(), Gemma3()}) {
    for (const auto& [key, value] : {std::pair("f16", "f16"), {"f32", "bf16"}, {"bf16", "f32"}}) {
      const CacheGeometry geometry = GeometryOf(test);
      const BlockLayout layout = LayoutOf(test, key, value);
      for (std::size_t g = 0; g < geometry.groups.size(); ++g) {
        std::vector<std::pair<std::size_t, std::size_t>> pages;  // offset, bytes
        for (const int layer : geometry.groups[g].layers) {
          const LayerPlace& place = layout.places[static_cast<std::size_t>(layer)];
          ASSERT_EQ(place.group, static_cast<int>(g));
          for (int head = 0; head < geometry.groups[g].shape.kv_heads; ++head) {
            pages.emplace_back(
                place.layer_offset + static_cast<std::size_t>(head) * place.head_stride,
                place.layout.bytes);
          }
        }
        std::sort(pages.begin(), pages.end());
        std::size_t end = 0;
        for (const auto& [offset, bytes] : pages) {
          ASSERT_EQ(offset, end);
          ASSERT_EQ(offset % kPageAlignment, 0U);
          end = offset + bytes;
        }
        EXPECT_EQ(end, layout.frame_bytes[g]);
      }
    }
  }
}

TEST(CacheGeometryTest, TheOldestVisibleBlockHoldsTheOldestVisibleToken) {
  for (int window : {0, 1, 2, 15, 16, 17, 21, 48}) {
    for (std::int64_t position = 0; position < 200; ++position) {
      std::int64_t oldest = 0;
      while (window != 0 && oldest + window <= position) ++oldest;
      ASSERT_EQ(OldestVisibleBlock(position, window), oldest / 16) << position << " " << window;
    }
  }
}

}  // namespace
}  // namespace swiftkv
