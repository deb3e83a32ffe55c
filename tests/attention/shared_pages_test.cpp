// SPDX-License-Identifier: Apache-2.0
// Tests which stretches of pages are found to be shared, and how they are joined into chunks.
#include "attention/shared_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "attention/cascade.h"
#include "formats/codec_table.h"

namespace swiftkv {
namespace {

using ::testing::ElementsAre;

std::byte g_arena[64];

// Readers whose runs lie in one arena; each sees all its pages.
struct Readers {
  // A dense run of `frames`, all full.
  PageRun Run(const std::vector<std::uint32_t>& frames, std::int64_t first_position = 0) {
    lists.push_back(frames);
    PageRun run;
    run.base = g_arena;
    run.num_pages = static_cast<int>(frames.size());
    run.num_tokens = run.num_pages * kPageTokens;
    run.end_head = 2;
    run.first_position = first_position;
    return run;
  }
  void Add(std::vector<PageRun> reader_runs) { runs.push_back(std::move(reader_runs)); }

  // Returns the members of each reader's stretches, of `pages` pages each.
  std::vector<std::vector<std::vector<int>>> Members(int pages) {
    Cut(pages);
    const SharedPages shared(readers, list);
    std::vector<std::vector<std::vector<int>>> members(readers.size());
    for (std::size_t r = 0; r < readers.size(); ++r) {
      for (int i = readers[r].first_stretch; i < readers[r].end_stretch; ++i) {
        const std::span<const int> group = shared.members(shared.group(i));
        members[r].emplace_back(group.begin(), group.end());
      }
    }
    return members;
  }
  Cascade Chunks(int chunk_pages) {
    Cut(kUnitPages);
    return MakeCascade(readers, list, SharedPages(readers, list), chunk_pages);
  }

  void Cut(int pages) {
    std::size_t next = 0;
    list = {};
    readers.clear();
    for (std::vector<PageRun>& sequence : runs) {
      for (PageRun& run : sequence) run.frames = lists[next++].data();
      const int first = static_cast<int>(list.stretches.size());
      AppendStretches({sequence, 0, {0, 1 << 30}}, pages, &list);
      readers.push_back({sequence, first, static_cast<int>(list.stretches.size())});
    }
  }

  std::vector<std::vector<std::uint32_t>> lists;  // of runs, in the order of Add
  std::vector<std::vector<PageRun>> runs;
  StretchList list;
  std::vector<PageReader> readers;
};

std::vector<std::uint32_t> Frames(std::uint32_t first, int count) {
  std::vector<std::uint32_t> frames(static_cast<std::size_t>(count));
  std::iota(frames.begin(), frames.end(), first);
  return frames;
}

std::vector<std::uint32_t> Joined(std::vector<std::uint32_t> a, std::vector<std::uint32_t> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(SharedPagesTest, EqualFramesAreSharedUntilTheFirstStretchThatDiffers) {
  Readers readers;
  readers.Add({readers.Run(Frames(0, 8))});
  readers.Add({readers.Run(Joined(Frames(0, 5), Frames(100, 3)))});
  readers.Add({readers.Run(Frames(200, 4))});
  const auto members = readers.Members(2);
  const std::vector<int> both{0, 1};
  EXPECT_THAT(members[0], ElementsAre(both, both, std::vector{0}, std::vector{0}));
  EXPECT_THAT(members[1], ElementsAre(both, both, std::vector{1}, std::vector{1}));
  EXPECT_THAT(members[2], ElementsAre(std::vector{2}, std::vector{2}));
}

TEST(SharedPagesTest, NestedSharingGivesSmallerGroupsBehindLargerOnes) {
  Readers readers;
  readers.Add({readers.Run(Frames(0, 6))});
  readers.Add({readers.Run(Joined(Frames(0, 4), Frames(100, 2)))});
  readers.Add({readers.Run(Joined(Frames(0, 2), Frames(200, 4)))});
  readers.Add({readers.Run(Joined(Joined(Frames(0, 2), Frames(200, 2)), Frames(300, 2)))});
  const auto members = readers.Members(2);
  const std::vector<int> all{0, 1, 2, 3};
  EXPECT_THAT(members[0], ElementsAre(all, std::vector{0, 1}, std::vector{0}));
  EXPECT_THAT(members[1], ElementsAre(all, std::vector{0, 1}, std::vector{1}));
  EXPECT_THAT(members[2], ElementsAre(all, std::vector{2, 3}, std::vector{2}));
  EXPECT_THAT(members[3], ElementsAre(all, std::vector{2, 3}, std::vector{3}));
}

TEST(SharedPagesTest, RunsMayBeCutAtDifferentPages) {
  Readers readers;
  readers.Add({readers.Run(Frames(0, 8))});
  readers.Add({readers.Run(Frames(0, 3)), readers.Run(Frames(3, 5), 3 * kPageTokens)});
  EXPECT_THAT(readers.Members(8)[0], ElementsAre(std::vector{0, 1}));
}

// Of a window, one reader still sees pages that another has left behind.
TEST(SharedPagesTest, ReadersThatBeginLaterShareTheRest) {
  Readers readers;
  readers.Add({readers.Run(Frames(0, 8))});
  readers.Add({readers.Run(Frames(3, 5), 3 * kPageTokens)});
  const auto members = readers.Members(2);
  const std::vector<int> both{0, 1};
  EXPECT_THAT(members[0], ElementsAre(std::vector{0}, std::vector{0}, both, both));
  EXPECT_THAT(members[1], ElementsAre(std::vector{1}, both, both));
}

TEST(SharedPagesTest, EqualFrameNumbersElsewhereAreNotShared) {
  const auto differs = [](auto change) {
    Readers readers;
    readers.Add({readers.Run(Frames(0, 2))});
    PageRun other = readers.Run(Frames(0, 2));
    change(&other);
    readers.Add({other});
    return readers.Members(2)[1][0] == std::vector{1};
  };
  static const std::int32_t positions[32] = {};
  EXPECT_FALSE(differs([](PageRun*) {}));
  EXPECT_TRUE(differs([](PageRun* run) { run->base = g_arena + 1; }));
  EXPECT_TRUE(differs([](PageRun* run) { run->layer_offset = 64; }));
  EXPECT_TRUE(differs([](PageRun* run) { run->frame_stride = 64; }));
  EXPECT_TRUE(differs([](PageRun* run) { run->num_tokens = 31; }));
  EXPECT_TRUE(differs([](PageRun* run) { run->first_position = 2 * kPageTokens; }));
  EXPECT_TRUE(differs([](PageRun* run) { run->positions = positions; }));
  EXPECT_TRUE(differs([](PageRun* run) { run->format.key = FindCodec("bf16").value(); }));
}

TEST(SharedPagesTest, ExtentsWithoutFramesShareNothing) {
  Readers readers;
  readers.Add({readers.Run(Frames(0, 2))});
  readers.Add({readers.Run(Frames(0, 2))});
  readers.Cut(2);
  for (auto& sequence : readers.runs) sequence[0].frames = nullptr;
  const SharedPages shared(readers.readers, readers.list);
  EXPECT_THAT(shared.members(shared.group(0)), ElementsAre(0));
  EXPECT_THAT(shared.members(shared.group(1)), ElementsAre(1));
}

// Two share 20 units of 8 pages, a third begins inside a chunk with the fifth of them.
TEST(CascadeTest, ChunksAreNumberedPerReaderAndEndWhereReadersChange) {
  Readers readers;
  readers.Add({readers.Run(Frames(0, 170))});
  readers.Add({readers.Run(Joined(Frames(0, 160), Frames(500, 3)))});
  readers.Add({readers.Run(Frames(40, 80), 40 * kPageTokens)});
  const Cascade cascade = readers.Chunks(32);
  // Units 0-4 by {0, 1}, 5-14 by all, 15-19 by {0, 1}, then each one's own.
  EXPECT_THAT(cascade.num_chunks, ElementsAre(8, 8, 3));
  std::vector<std::vector<int>> groups;
  for (const CascadeGroup& group : cascade.groups) {
    std::vector<int> facts{group.end_chunk - group.first_chunk};
    for (int m = group.first_member; m < group.end_member; ++m) {
      facts.push_back(cascade.members[static_cast<std::size_t>(m)].reader);
      facts.push_back(cascade.members[static_cast<std::size_t>(m)].first_chunk);
    }
    groups.push_back(facts);
  }
  EXPECT_THAT(groups,
              ElementsAre(ElementsAre(2, 0, 0, 1, 0), ElementsAre(3, 0, 2, 1, 2, 2, 0),
                          ElementsAre(2, 0, 5, 1, 5), ElementsAre(1, 0, 7), ElementsAre(1, 1, 7)));
  int pages = 0;
  for (const CascadeChunk& chunk : cascade.chunks) pages += chunk.amount.pages;
  EXPECT_EQ(pages, 160 + 10 + 3);
}

}  // namespace
}  // namespace swiftkv
