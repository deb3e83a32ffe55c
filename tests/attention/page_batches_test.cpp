// SPDX-License-Identifier: Apache-2.0
// Tests which batches of pages need a mask by token.
#include "attention/page_batches.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "formats/codec_table.h"

namespace swiftkv {
namespace {

constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();

// A head's run of `num_tokens` tokens at every third position from 5 on.
struct GapRun {
  explicit GapRun(int num_tokens) : frames(8), storage(64) {
    for (int i = 0; i < num_tokens; ++i) positions.push_back(5 + 3 * i);
    const PageCodec* codec = FindCodec("f16").value();
    run.format = {codec, codec};
    run.layout = PageLayout::For(run.format, 16);
    run.base = storage.data();
    run.frames = frames.data();
    run.num_tokens = num_tokens;
    run.num_pages = (num_tokens + kPageTokens - 1) / kPageTokens;
    run.end_head = 1;
    run.first_position = 5;
    run.positions = positions.data();
  }

  Visibility Resolve(int page, const TileView& view) {
    return ResolveVisibility(BatchAt(run, 0, page, run.num_pages), view, resolved);
  }

  std::vector<std::uint32_t> frames;
  std::vector<std::byte> storage;
  std::vector<std::int32_t> positions;
  PageRun run;
  std::int32_t resolved[kBatchTokens];
};

TEST(PageBatchesTest, FullPagesOfARunThatEndsBeforeTheRowsNeedNoMask) {
  GapRun gaps(96);  // positions 5 to 290
  EXPECT_EQ(gaps.Resolve(0, {290, 400, 0}), Visibility::kAll);
  EXPECT_EQ(gaps.Resolve(4, {290, 290, 0}), Visibility::kAll);
  EXPECT_EQ(gaps.Resolve(4, {291, 300, 0}), Visibility::kAll);
}

TEST(PageBatchesTest, PagesAmongTheRowsPositionsAreMaskedOnlyWhereTheyMustBe) {
  GapRun gaps(96);
  EXPECT_EQ(gaps.Resolve(0, {194, 289, 0}), Visibility::kAll);  // its last position is 194
  EXPECT_EQ(gaps.Resolve(0, {193, 289, 0}), Visibility::kSome);
  EXPECT_EQ(gaps.Resolve(4, {194, 289, 0}), Visibility::kSome);
  EXPECT_EQ(gaps.Resolve(4, {100, 196, 0}), Visibility::kNone);
  EXPECT_EQ(gaps.Resolve(4, {100, 197, 0}), Visibility::kSome);
  EXPECT_EQ(gaps.resolved[0], 197);
  EXPECT_EQ(gaps.resolved[31], 290);
}

TEST(PageBatchesTest, TheLastPagesMissingSlotsAreMasked) {
  GapRun gaps(90);
  EXPECT_EQ(gaps.Resolve(0, {1000, 1000, 0}), Visibility::kAll);
  EXPECT_EQ(gaps.Resolve(4, {1000, 1000, 0}), Visibility::kSome);
  EXPECT_EQ(gaps.resolved[0], 197);
  EXPECT_EQ(gaps.resolved[25], 272);
  EXPECT_EQ(gaps.resolved[26], kNever);
}

TEST(PageBatchesTest, AWindowForgetsPositionsNotSlots) {
  GapRun gaps(96);
  EXPECT_EQ(gaps.Resolve(0, {300, 300, 106}), Visibility::kNone);  // sees 195 and later
  EXPECT_EQ(gaps.Resolve(0, {300, 300, 107}), Visibility::kSome);
  EXPECT_EQ(gaps.Resolve(4, {300, 300, 104}), Visibility::kAll);  // sees 197 and later
  EXPECT_EQ(gaps.Resolve(4, {300, 300, 103}), Visibility::kSome);
}

}  // namespace
}  // namespace swiftkv
