// SPDX-License-Identifier: Apache-2.0
// Tests the pages of a bench: that bytes and operations are what a plain count of them gives.
#include "tools/bench_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "formats/page_format_table.h"
#include "tools/bench_attention_passes.h"

namespace swiftkv {
namespace {

BenchPagesSpec SpecOf(const PageFormat& format) {
  BenchPagesSpec spec;
  spec.shape = {.num_heads = 6, .num_kv_heads = 3, .head_dim = 64, .scale = 0.125F};
  spec.format = format;
  spec.layers = 2;
  spec.turns = 3;
  spec.batch = 4;
  spec.context = 150;
  return spec;
}

// Walks every page of every call as a kernel would.
template <typename Visit>
void VisitPages(BenchPages* pages, Visit visit) {
  for (int turn = 0; turn < pages->spec().turns; ++turn) {
    for (int layer = 0; layer < pages->spec().layers; ++layer) {
      const AttentionBatch batch = pages->batch(turn, layer);
      for (const AttentionSequence& sequence : batch.sequences) {
        for (const PageRun& run : sequence.runs) {
          for (int page = 0; page < run.num_pages; ++page) {
            for (int head = run.first_head; head < run.end_head; ++head) {
              visit(run.Page(page, head));
            }
          }
        }
      }
    }
  }
}

TEST(BenchPagesTest, BytesReadAreThePagesVisitedTimesTheirSizeInEveryFormat) {
  for (const NamedPageFormat& row : AllPageFormats()) {
    for (const int shared : {0, 96}) {
      SCOPED_TRACE(std::string(row.name) + ", shared " + std::to_string(shared));
      BenchPagesSpec spec = SpecOf(row.format);
      spec.shared_tokens = shared;
      BenchArena arena(/*huge_pages=*/false);
      const auto pages = BenchPages::Make(spec, &arena);
      ASSERT_TRUE(pages.ok()) << pages.status().message();
      const std::size_t page_bytes = PageLayout::For(row.format, 64).bytes;
      std::set<const std::byte*> distinct;
      std::uint64_t visits = 0;
      VisitPages(pages->get(), [&](const std::byte* page) {
        EXPECT_GE(page, arena.data());
        EXPECT_LE(page + page_bytes, arena.data() + arena.bytes());
        distinct.insert(page);
        ++visits;
      });
      const BenchWork& work = (*pages)->work();
      EXPECT_EQ(work.page_bytes, page_bytes);
      EXPECT_EQ(work.pages, distinct.size());
      EXPECT_EQ(work.visits, visits);
      EXPECT_EQ(work.distinct_bytes, distinct.size() * page_bytes);
      // Pages never overlap.
      const std::byte* end = arena.data();
      for (const std::byte* page : distinct) {
        EXPECT_GE(page, end);
        end = page + page_bytes;
      }
    }
  }
}

TEST(BenchPagesTest, HeadsOfSegmentsKeepUnlikePagesOfTheirOwnAtRisingPositions) {
  for (const double removed : {0.3, 0.5, 0.8}) {
    BenchPagesSpec spec = SpecOf(*FindPageFormat("int8"));
    spec.context = 1000;
    spec.removed = removed;
    BenchArena arena(/*huge_pages=*/false);
    const auto pages = BenchPages::Make(spec, &arena).value();
    const BenchWork& work = pages->work();
    std::set<const std::byte*> distinct;
    VisitPages(pages.get(), [&](const std::byte* page) {
      EXPECT_LE(page + work.page_bytes, arena.data() + arena.bytes());
      EXPECT_EQ((page - arena.data()) % static_cast<std::ptrdiff_t>(work.page_bytes), 0);
      EXPECT_TRUE(distinct.insert(page).second);
    });
    EXPECT_EQ(work.pages, distinct.size());
    const int dense = 6 * 4 * 3 * 63;  // calls, sequences, heads, pages
    EXPECT_NEAR(static_cast<double>(work.pages), dense * (1 - removed), dense * 0.01);
    std::set<int> lengths;
    double slots = 0;
    for (const AttentionSequence& sequence : pages->batch(1, 1).sequences) {
      ASSERT_EQ(sequence.runs.size(), 4U);
      for (int head = 0; head < 3; ++head) {
        const PageRun& run = sequence.runs[static_cast<std::size_t>(head)];
        EXPECT_EQ(run.first_head, head);
        EXPECT_EQ(run.num_tokens % kPageTokens, 0);
        for (int i = 1; i < run.num_tokens; ++i) {
          ASSERT_LT(run.positions[i - 1], run.positions[i]);
        }
        if (run.num_tokens > 0) {
          EXPECT_LT(run.positions[run.num_tokens - 1], 880);
        }
        lengths.insert(run.num_tokens);
        slots += run.num_tokens;
      }
      EXPECT_EQ(sequence.runs[3].first_position, 880);
      EXPECT_EQ(sequence.runs[3].num_tokens, 120);
      EXPECT_EQ(sequence.first_position, 999);
      slots += 3 * 120;
    }
    EXPECT_EQ(lengths.size(), 3U);
    EXPECT_EQ(work.flops, 4 * slots * 2 * 64 * work.calls);
    EXPECT_NE(pages->batch(0, 0).sequences[0].runs[0].num_pages,
              pages->batch(0, 1).sequences[0].runs[0].num_pages);
  }
}

TEST(BenchPagesTest, ATurnsSequencesShareTheirFirstPagesAndNoOthers) {
  BenchPagesSpec spec = SpecOf(*FindPageFormat("f16"));
  spec.shared_tokens = 96;
  BenchArena arena(/*huge_pages=*/false);
  const auto pages = BenchPages::Make(spec, &arena).value();
  for (int layer = 0; layer < spec.layers; ++layer) {
    const AttentionBatch batch = pages->batch(1, layer);
    const PageRun& first = batch.sequences[0].runs[0];
    const PageRun& last = batch.sequences[3].runs[0];
    EXPECT_EQ(first.num_tokens, 150);
    for (int page = 0; page < first.num_pages; ++page) {
      EXPECT_EQ(first.Page(page, 2) == last.Page(page, 2), page < 6) << page;
    }
  }
  EXPECT_NE(pages->batch(0, 0).sequences[0].runs[0].Page(0, 0),
            pages->batch(1, 0).sequences[0].runs[0].Page(0, 0));
}

TEST(BenchPagesTest, OperationsAreFourForEachVisibleSlotHeadAndChannel) {
  BenchPagesSpec spec = SpecOf(*FindPageFormat("f16"));
  spec.queries = 37;
  double pairs = 0;
  for (int position = spec.context - spec.queries; position < spec.context; ++position) {
    for (int slot = 0; slot <= position; ++slot) ++pairs;
  }
  const BenchWork work = WorkOf(spec);
  EXPECT_EQ(work.calls, 6);
  EXPECT_EQ(work.flops, 4 * pairs * spec.batch * 6 * 64 * work.calls);
}

TEST(BenchPagesTest, FramesAreShuffledUnlessToldOtherwise) {
  BenchArena arena(/*huge_pages=*/false);
  BenchPagesSpec ordered = SpecOf(*FindPageFormat("f16"));
  ordered.shuffled = false;
  const auto in_order = BenchPages::Make(ordered, &arena).value();
  const PageRun& straight = in_order->batch(0, 0).sequences[1].runs[0];
  for (int page = 0; page < straight.num_pages; ++page) {
    EXPECT_EQ(straight.frames[page], static_cast<std::uint32_t>(straight.num_pages + page));
  }
  const auto pages = BenchPages::Make(SpecOf(*FindPageFormat("f16")), &arena).value();
  int descents = 0;
  const PageRun& run = pages->batch(0, 0).sequences[0].runs[0];
  for (int page = 1; page < run.num_pages; ++page) {
    if (run.frames[page] < run.frames[page - 1]) ++descents;
  }
  EXPECT_GT(descents, 0);
}

TEST(BenchPagesTest, AnArenaKeepsItsMemoryAndGrows) {
  BenchArena arena(/*huge_pages=*/true);
  ASSERT_TRUE(arena.Ensure(1 << 20).ok());
  const std::byte* const data = arena.data();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % (2U << 20), 0U);
  ASSERT_TRUE(arena.Ensure(1 << 10).ok());
  EXPECT_EQ(arena.data(), data);
  EXPECT_EQ(arena.bytes(), 1U << 20);
  ASSERT_TRUE(arena.Ensure(3 << 20).ok());
  EXPECT_EQ(arena.bytes(), 3U << 20);
  const Status status = arena.Ensure(std::size_t{1} << 50);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), testing::HasSubstr("--megabytes"));
}

TEST(RawPassTest, ReadsEveryPageOnceWhateverTheNumberOfThreads) {
  BenchArena arena(/*huge_pages=*/false);
  const auto pages = BenchPages::Make(SpecOf(*FindPageFormat("bf16")), &arena).value();
  for (const int threads : {1, 2, 3}) {
    const RawPass raw(*PortableProbes(), pages.get(), threads);
    EXPECT_EQ(raw.num_pages(), pages->work().pages);
  }
}

TEST(RawPassTest, ReadsEveryPageOfSegmentsOnce) {
  BenchPagesSpec spec = SpecOf(*FindPageFormat("bf16"));
  spec.context = 1000;
  spec.removed = 0.5;
  BenchArena arena(/*huge_pages=*/false);
  const auto pages = BenchPages::Make(spec, &arena).value();
  const RawPass raw(*PortableProbes(), pages.get(), 2);
  EXPECT_EQ(raw.num_pages(), pages->work().pages);
}

TEST(KernelPassTest, PutsOutWhatAttendingTheLastCallPutsOut) {
  for (const double removed : {0.0, 0.6}) {
    BenchPagesSpec spec = SpecOf(*FindPageFormat("f16"));
    spec.turns = 1;
    spec.context = 1500;  // cut into chunks, so that there is something to merge
    spec.removed = removed;
    BenchArena arena(/*huge_pages=*/false);
    const auto pages = BenchPages::Make(spec, &arena).value();
    const AttentionBatch batch = pages->batch(0, spec.layers - 1);
    const std::size_t count = static_cast<std::size_t>(spec.batch) * 6 * 64;

    const auto reference = MakeAttentionBackend("reference", "auto").value();
    ASSERT_TRUE(Attend(*reference, batch, 1).ok());
    const std::vector<float> expected(batch.out, batch.out + count);
    std::fill(batch.out, batch.out + count, 0.0F);

    const auto backend = MakeAttentionBackend("cpu", "auto").value();
    const auto kernel = KernelPass::Make(backend.get(), pages.get()).value();
    ThreadTeam team(2);
    TimePass(std::cref(*kernel), &team);
    for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(batch.out[i], expected[i], 1e-4);
  }
}

}  // namespace
}  // namespace swiftkv
