// SPDX-License-Identifier: Apache-2.0
// Tests how batches are cut into tiles, chunks and items.
#include "attention/work_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "formats/codec_table.h"

namespace swiftkv {
namespace {

PageRun DenseRun(int num_tokens, std::int64_t first_position = 0) {
  PageRun run;
  run.num_tokens = num_tokens;
  run.num_pages = (num_tokens + kPageTokens - 1) / kPageTokens;
  run.end_head = 3;
  run.first_position = first_position;
  run.layout.bytes = 4 * kPageTokens * 64;
  return run;
}

constexpr AttentionShape kShape{.num_heads = 9, .num_kv_heads = 3, .head_dim = 64, .scale = 0.125F};

// A batch over runs that need no pages: plans look at extents only.
struct Extents {
  std::vector<std::vector<PageRun>> runs;
  std::vector<AttentionSequence> sequences;
  AttentionShape shape = kShape;
  int rows = 0;

  void Add(std::vector<PageRun> sequence_runs, int num_rows, std::int64_t length) {
    runs.push_back(std::move(sequence_runs));
    sequences.push_back(
        {.runs = {}, .first_row = rows, .num_rows = num_rows, .first_position = length - num_rows});
    rows += num_rows;
  }
  WorkPlan Plan() {
    for (std::size_t s = 0; s < runs.size(); ++s) sequences[s].runs = runs[s];
    return WorkPlan({.shape = shape, .sequences = sequences});
  }
};

// Returns the pages (run, page) of each tile, failing where a page is in two items.
std::vector<std::set<std::pair<int, int>>> PagesOfTiles(const WorkPlan& plan) {
  std::vector<std::set<std::pair<int, int>>> pages(plan.tiles().size());
  for (const WorkItem& item : plan.items()) {
    for (const PageSpan& span : plan.spans(item)) {
      for (int page = span.first_page; page < span.end_page; ++page) {
        EXPECT_TRUE(pages[static_cast<std::size_t>(item.tile)].insert({span.run, page}).second);
      }
    }
  }
  return pages;
}

TEST(WorkPlanTest, EveryVisiblePageIsInExactlyOneItemOfItsTile) {
  for (const int rows : {1, 5, 64, 700}) {
    for (const int window : {0, 1, 100}) {
      Extents extents;
      extents.shape.window = window;
      extents.Add({DenseRun(1600), DenseRun(325, 1600)}, rows, 1925);
      const WorkPlan plan = extents.Plan();
      const auto pages = PagesOfTiles(plan);
      for (std::size_t t = 0; t < pages.size(); ++t) {
        const std::int64_t first = plan.rows(plan.tiles()[t]).front().position;
        const std::int64_t last = plan.rows(plan.tiles()[t]).back().position;
        std::set<std::pair<int, int>> expected;
        for (int page = 0; page * kPageTokens <= last; ++page) {
          const bool seen = window == 0 || page * kPageTokens + 15 > first - window;
          if (seen) expected.insert({page < 100 ? 0 : 1, page < 100 ? page : page - 100});
        }
        EXPECT_EQ(pages[t], expected) << rows << " " << window << " tile " << t;
      }
    }
  }
}

TEST(WorkPlanTest, EveryRowAndKvHeadIsInExactlyOneTile) {
  Extents extents;
  extents.Add({DenseRun(48)}, 1, 48);
  extents.Add({DenseRun(333)}, 200, 333);
  extents.Add({DenseRun(20)}, 7, 20);
  const WorkPlan plan = extents.Plan();
  std::multiset<std::pair<int, int>> covered;
  for (const RowTile& tile : plan.tiles()) {
    EXPECT_LE(plan.vectors(tile), kMaxTileVectors);
    for (const TileRow& row : plan.rows(tile)) covered.insert({row.batch_row, tile.kv_head});
  }
  EXPECT_EQ(covered.size(), 208U * 3);
  for (int row = 0; row < 208; ++row) {
    for (int head = 0; head < 3; ++head) EXPECT_EQ(covered.count({row, head}), 1U);
  }
}

// A shared prefix gives the same chunks whoever reads it, however its segments are cut.
TEST(WorkPlanTest, ChunksOfDenseRunsEndAtTheSamePositionsHoweverRunsAreCut) {
  const auto ends = [](std::vector<PageRun> runs) {
    Extents extents;
    extents.Add(std::move(runs), 1, 5000);
    const WorkPlan plan = extents.Plan();
    std::set<std::int64_t> positions;
    for (const WorkItem& item : plan.items()) {
      const PageSpan& last = plan.spans(item).back();
      positions.insert(extents.runs[0][static_cast<std::size_t>(last.run)].first_position +
                       last.end_page * kPageTokens);
    }
    return positions;
  };
  const std::set<std::int64_t> whole = ends({DenseRun(5000)});
  EXPECT_EQ(whole,
            (std::set<std::int64_t>{512, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 4608, 5008}));
  EXPECT_EQ(ends({DenseRun(1600), DenseRun(480, 1600), DenseRun(2920, 2080)}), whole);
}

TEST(WorkPlanTest, OneChunkPerTileNeedsNoMergeAndNoScratch) {
  Extents extents;
  for (int s = 0; s < 8; ++s) extents.Add({DenseRun(500)}, 1, 500);
  const WorkPlan plan = extents.Plan();
  EXPECT_EQ(plan.items().size(), 24U);
  EXPECT_FALSE(plan.needs_merge());
  EXPECT_EQ(plan.scratch_bytes(), 0U);
}

TEST(WorkPlanTest, ALoneShortSequenceIsCutSoThatThreadsCanShareIt) {
  Extents extents;
  extents.Add({DenseRun(500)}, 1, 500);
  const WorkPlan plan = extents.Plan();
  EXPECT_EQ(plan.items().size(), 12U);
  EXPECT_TRUE(plan.needs_merge());
}

// Sixteen sequences on one prefix: 48 query vectors read it together, all threads get a share.
TEST(WorkPlanTest, ASharedPrefixIsReadOncePerKvHeadAndInItemsEnough) {
  for (const int prefix : {1024, 8192}) {
    std::vector<std::uint32_t> frames(static_cast<std::size_t>(prefix) / kPageTokens + 16);
    for (std::size_t i = 0; i < frames.size(); ++i) frames[i] = static_cast<std::uint32_t>(i);
    std::byte arena{};
    Extents extents;
    for (int s = 0; s < 16; ++s) {
      PageRun shared = DenseRun(prefix);
      shared.base = &arena;
      shared.frames = frames.data();
      extents.Add({shared, DenseRun(5 + s, prefix)}, 1, prefix + 5 + s);
    }
    const WorkPlan plan = extents.Plan();
    int shared_pages = 0;
    int shared_items = 0;
    double largest = 0;
    double total = 0;
    for (const WorkItem& item : plan.items()) {
      largest = std::max(largest, item.cost);
      total += item.cost;
      if (plan.vectors(plan.tile(item)) == 3) continue;
      EXPECT_EQ(plan.vectors(plan.tile(item)), 48);
      ++shared_items;
      for (const PageSpan& span : plan.spans(item)) shared_pages += span.end_page - span.first_page;
    }
    EXPECT_EQ(shared_pages, 3 * prefix / kPageTokens);
    EXPECT_GE(shared_items, 12);
    EXPECT_LE(largest * 12, total);
  }
}

TEST(WorkPlanTest, MoreVectorsThanATileTakesAreSplitEvenly) {
  std::vector<std::uint32_t> frames(64, 7);
  std::byte arena{};
  Extents extents;
  for (int s = 0; s < 70; ++s) {
    PageRun shared = DenseRun(1024);
    shared.base = &arena;
    shared.frames = frames.data();
    extents.Add({shared}, 1, 1024);
  }
  const WorkPlan plan = extents.Plan();
  std::multiset<int> vectors;
  for (const RowTile& tile : plan.tiles()) vectors.insert(plan.vectors(tile));
  EXPECT_THAT(vectors, testing::ElementsAre(69, 69, 69, 69, 69, 69, 72, 72, 72));
}

// Whatever tiles compute them, the partial results of a row are each written once.
TEST(WorkPlanTest, EveryPartialResultOfAMergedRowIsWrittenByOneItem) {
  std::vector<std::uint32_t> frames(200);
  for (std::size_t i = 0; i < frames.size(); ++i) frames[i] = static_cast<std::uint32_t>(i);
  std::byte arena{};
  Extents extents;
  for (const int prefix : {1600, 1600, 800, 320, 1600}) {
    PageRun shared = DenseRun(prefix);
    shared.base = &arena;
    shared.frames = frames.data();
    extents.Add({shared, DenseRun(300, prefix)}, 2, prefix + 300);
  }
  extents.Add({DenseRun(2000)}, 40, 2000);
  const WorkPlan plan = extents.Plan();
  std::multiset<std::size_t> written;
  for (const WorkItem& item : plan.items()) {
    for (const TileRow& row : plan.rows(plan.tile(item))) {
      if (row.only_chunk) continue;
      for (int head = 0; head < 3; ++head) {
        written.insert(row.first_partial + static_cast<std::size_t>(item.chunk * 3 + head));
      }
    }
  }
  std::multiset<std::size_t> merged;
  for (const MergedRow& row : plan.merged_rows()) {
    for (int i = 0; i < row.num_chunks * 3; ++i) {
      merged.insert(row.first_partial + static_cast<std::size_t>(i));
    }
  }
  EXPECT_EQ(written, merged);
  EXPECT_EQ(written.size(), std::set<std::size_t>(written.begin(), written.end()).size());
  EXPECT_EQ(plan.scratch_bytes(), written.size() * (64 + 16) * sizeof(float));
}

// One run per kv head, as many tokens as `kept` says, then a dense tail.
std::vector<PageRun> Segment(const std::vector<int>& kept, const std::vector<const char*>& formats,
                             std::vector<std::vector<std::int32_t>>* positions) {
  std::vector<PageRun> runs;
  for (std::size_t head = 0; head < kept.size(); ++head) {
    std::vector<std::int32_t>& rising = positions->emplace_back();
    for (int i = 0; i < kept[head]; ++i) rising.push_back(i);
    PageRun run = DenseRun(kept[head]);
    run.first_head = static_cast<int>(head);
    run.end_head = run.first_head + 1;
    run.positions = rising.data();
    const PageCodec* codec = FindCodec(formats[head]).value();
    run.format = {codec, codec};
    run.layout = PageLayout::For(run.format, 64);
    runs.push_back(run);
  }
  runs.push_back(DenseRun(130, 8192));
  return runs;
}

// Returns the bytes that each thread of a team reads.
std::vector<double> BytesOfThreads(const WorkPlan& plan, const std::vector<PageRun>& runs,
                                   int num_threads) {
  std::vector<double> bytes(static_cast<std::size_t>(num_threads));
  for (int thread = 0; thread < num_threads; ++thread) {
    std::size_t i = 0;
    for (std::size_t round = 0;
         (i = WorkPlan::ItemOf(round, {thread, num_threads})) < plan.items().size(); ++round) {
      for (const PageSpan& span : plan.spans(plan.items()[i])) {
        bytes[static_cast<std::size_t>(thread)] +=
            static_cast<double>(span.end_page - span.first_page) *
            runs[static_cast<std::size_t>(span.run)].layout.bytes;
      }
    }
  }
  return bytes;
}

// Heads of unlike length and format: threads get equal bytes, not equal heads.
TEST(WorkPlanTest, ThreadsReadAboutTheSameBytesHoweverUnlikeHeadsAre) {
  struct Case {
    std::vector<int> kept;
    std::vector<const char*> formats;
  };
  const Case cases[] = {{{8000, 500, 100}, {"f16", "f16", "f16"}},
                        {{4096, 4096, 4096}, {"f32", "f16", "int4"}},
                        {{100, 8000, 8000}, {"f32", "int4", "int8"}},
                        {{16, 6000, 0}, {"f16", "f16", "f16"}}};
  for (const Case& tested : cases) {
    for (const int num_threads : {1, 2, 3, 4}) {
      Extents extents;
      std::vector<std::vector<std::int32_t>> positions;
      positions.reserve(3);
      extents.Add(Segment(tested.kept, tested.formats, &positions), 1, 8322);
      const WorkPlan plan = extents.Plan();
      const std::vector<double> bytes = BytesOfThreads(plan, extents.runs[0], num_threads);
      const double most = *std::max_element(bytes.begin(), bytes.end());
      double total = 0;
      for (const double each : bytes) total += each;
      EXPECT_LE(most * num_threads, 1.15 * total) << num_threads << " of " << tested.kept[1];
    }
  }
}

TEST(WorkPlanTest, EveryItemIsDealtToOneThread) {
  for (const int num_threads : {1, 2, 3, 7}) {
    std::multiset<std::size_t> dealt;
    for (int thread = 0; thread < num_threads; ++thread) {
      for (std::size_t round = 0; round < 10; ++round) {
        dealt.insert(WorkPlan::ItemOf(round, {thread, num_threads}));
      }
    }
    for (std::size_t i = 0; i < 10U * static_cast<std::size_t>(num_threads); ++i) {
      EXPECT_EQ(dealt.count(i), 1U) << i << " of " << num_threads;
    }
  }
}

TEST(WorkPlanTest, ItemsFallInCost) {
  Extents extents;
  extents.Add({DenseRun(700)}, 600, 700);
  extents.Add({DenseRun(2000)}, 1, 2000);
  const WorkPlan plan = extents.Plan();
  for (std::size_t i = 1; i < plan.items().size(); ++i) {
    EXPECT_GE(plan.items()[i - 1].cost, plan.items()[i].cost);
  }
}

TEST(WorkPlanTest, ASequenceWithoutRowsGivesNoWork) {
  Extents extents;
  extents.Add({DenseRun(64)}, 0, 64);
  EXPECT_THAT(extents.Plan().items(), testing::IsEmpty());
}

}  // namespace
}  // namespace swiftkv
