// SPDX-License-Identifier: Apache-2.0
// Checks the guard rails of formats with few bits: which blocks are re-encoded, when, and for whom.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/process_memory.h"
#include "cache/constant_rows.h"
#include "cache/format_plan.h"

namespace swiftkv {
namespace {

std::vector<PageRun> RunsOf(const KvCache& cache, SequenceId id, int layer) {
  std::vector<PageRun> runs;
  cache.AppendRuns(id, layer, 0, &runs);
  return runs;
}

// Writes a layer's formats as text, one "name*pages" a run.
std::string FormatsOf(const KvCache& cache, SequenceId id, int layer) {
  std::string text;
  for (const PageRun& run : RunsOf(cache, id, layer)) {
    if (!text.empty()) text += ' ';
    text += PageFormatName(run.format);
    text += '*';
    text += std::to_string(run.num_pages);
  }
  return text;
}

TEST(FormatPlanTest, PlanesOfFewBitsAreInt8WhileOpenAndInTheGuardedLayers) {
  const FormatPlan plan = FormatPlan::For(SixLayers().layers, "f16", "int4").value();
  EXPECT_TRUE(plan.seals());
  EXPECT_EQ(plan.name(), "f16/int4");
  EXPECT_EQ(plan.quality(), Quality::kAny);
  for (int layer = 0; layer < 6; ++layer) {
    EXPECT_EQ(PageFormatName(plan.open.layer(layer)), "f16/int8");
    EXPECT_EQ(PageFormatName(plan.sealed.layer(layer)),
              layer == 2 || layer == 3 ? "f16/int4" : "f16/int8");
  }
}

TEST(FormatPlanTest, FormatsOfEightBitsAndMoreHaveNoGuardRails) {
  for (const char* name : {"int8", "fp8_e4m3", "fp8_e5m2", "bf16", "f16", "f32"}) {
    const FormatPlan plan = FormatPlan::For(SixLayers().layers, name, name).value();
    EXPECT_FALSE(plan.seals()) << name;
    EXPECT_EQ(PageFormatName(plan.open.layer(3)), name);
  }
}

TEST(FormatPlanTest, AModelOfUpToFourLayersIsWhollyGuarded) {
  for (int layers = 1; layers <= 5; ++layers) {
    const FormatPlan plan = FormatPlan::For(Repeat(layers, {1, 64, 0}), "int4", "int4").value();
    EXPECT_EQ(plan.seals(), layers == 5) << layers;
    EXPECT_EQ(plan.quality(), layers == 5 ? Quality::kAny : Quality::kNear) << layers;
  }
}

TEST(KvCacheSealingTest, ABlockIsSealedOnceItsTokensAreOlderThanTheNewest128) {
  const auto cache = NewCache(SixLayers(), 4 << 20, "int4");
  const SequenceId id = *cache->CreateSequence();
  for (int length = 1; length <= 400; ++length) {
    Append(cache.get(), id, 1, 1);
    const int sealed = std::max(0, (length - 128) / 16 - 1);
    const int open = (length + 15) / 16 - sealed;
    const std::string expected =
        sealed == 0 ? "int8*" + std::to_string(open)
                    : "int8*1 int4*" + std::to_string(sealed) + " int8*" + std::to_string(open - 1);
    ASSERT_EQ(FormatsOf(*cache, id, 2), expected) << length;
  }
  EXPECT_EQ(FormatsOf(*cache, id, 1), "int8*1 int8*16 int8*8") << "a guarded layer";
  cache->CheckInvariants();
}

TEST(KvCacheSealingTest, OneCommitSealsAllOfAPrefill) {
  const auto cache = NewCache(SixLayers(), 4 << 20, "int4");
  const SequenceId id = *cache->CreateSequence();
  Append(cache.get(), id, 407, 1);
  EXPECT_EQ(FormatsOf(*cache, id, 3), "int8*1 int4*16 int8*9");
  const std::vector<PageRun> runs = RunsOf(*cache, id, 3);
  EXPECT_EQ(runs[1].first_position, 16);
  EXPECT_EQ(runs[2].first_position, 17 * 16);
  EXPECT_EQ(runs[2].num_tokens, 407 - 17 * 16);
}

TEST(KvCacheSealingTest, ForksSealTheirCommonBlocksIntoOneCopyEachInItsTime) {
  const auto cache = NewCache(SixLayers(), 4 << 20, "int4");
  const SequenceId ahead = *cache->CreateSequence();
  Append(cache.get(), ahead, 144, 1);
  const SequenceId behind = *cache->Fork(ahead);
  Append(cache.get(), ahead, 64, 2);
  EXPECT_EQ(FormatsOf(*cache, ahead, 2), "int8*1 int4*4 int8*8");
  EXPECT_EQ(FormatsOf(*cache, behind, 2), "int8*9") << "sealed before its own time";
  cache->CheckInvariants();
  const std::uint64_t mapped = cache->Balance().mapped_bytes;
  Append(cache.get(), behind, 64, 3);
  EXPECT_EQ(FormatsOf(*cache, behind, 2), "int8*1 int4*4 int8*8");
  for (int page = 0; page < 4; ++page) {
    EXPECT_EQ(RunsOf(*cache, ahead, 2)[1].Page(page, 0),
              RunsOf(*cache, behind, 2)[1].Page(page, 0));
  }
  // Four fresh open blocks came, four shared open ones went, and nothing was sealed twice.
  EXPECT_LE(cache->Balance().mapped_bytes, mapped + 8192);
  cache->CheckInvariants();
}

TEST(KvCacheSealingTest, AWriterOfAFrameWithATwinLeavesTheTwinAsItWas) {
  const auto cache = NewCache(SixLayers(), 4 << 20, "int4");
  const SequenceId ahead = *cache->CreateSequence();
  Append(cache.get(), ahead, 144, 1);
  const SequenceId behind = *cache->Fork(ahead);
  Append(cache.get(), ahead, 64, 2);
  ASSERT_TRUE(cache->Truncate(behind, 40).ok());  // into a block that `ahead` has sealed
  Append(cache.get(), behind, 168, 4);
  cache->CheckInvariants();
  EXPECT_EQ(FormatsOf(*cache, behind, 2), "int8*1 int4*4 int8*8");
  EXPECT_EQ(RunsOf(*cache, ahead, 2)[1].Page(0, 0), RunsOf(*cache, behind, 2)[1].Page(0, 0));
  EXPECT_NE(RunsOf(*cache, ahead, 2)[1].Page(1, 0), RunsOf(*cache, behind, 2)[1].Page(1, 0));
  const std::vector<float> keys = VisibleKeys(*cache, ahead, 0);
  EXPECT_EQ(keys[41], keys[39]) << "the other sequence's tokens changed";
  EXPECT_NE(VisibleKeys(*cache, behind, 0)[41], keys[39]);
}

TEST(KvCacheSealingTest, CuttingIntoASealedBlockOpensItForTheNextToken) {
  const auto cache = NewCache(SixLayers(), 4 << 20, "int4");
  const SequenceId id = *cache->CreateSequence();
  Append(cache.get(), id, 300, 1);
  const SequenceId fork = *cache->Fork(id);
  ASSERT_TRUE(cache->Truncate(id, 40).ok());
  EXPECT_EQ(FormatsOf(*cache, id, 2), "int8*1 int4*2") << "nothing changes until it is written";
  cache->CheckInvariants();
  const float sealed = VisibleKeys(*cache, id, 2)[39];
  Append(cache.get(), id, 1, 5);
  EXPECT_EQ(FormatsOf(*cache, id, 2), "int8*1 int4*1 int8*1");
  EXPECT_EQ(VisibleKeys(*cache, id, 2).size(), 41U);
  EXPECT_NEAR(VisibleKeys(*cache, id, 2)[40], 5, 0.05);
  EXPECT_NEAR(VisibleKeys(*cache, id, 2)[39], sealed, 0.05);
  EXPECT_EQ(FormatsOf(*cache, fork, 2), "int8*1 int4*9 int8*9");
  cache->CheckInvariants();
}

TEST(KvCacheSealingTest, WithoutRoomBlocksStayOpenUntilThereIsSome) {
  const auto cache = NewCache(SixLayers(), 360 << 10, "int4");
  const SequenceId other = *cache->CreateSequence();
  const SequenceId id = *cache->CreateSequence();
  Append(cache.get(), id, 144, 1);
  ASSERT_TRUE(cache->Reserve(id, 64).ok());
  while (cache->Reserve(other, 1).ok()) cache->Commit(other, 1);
  StoreConstant(*cache, id, 144, 64, 1);
  cache->Commit(id, 64);
  EXPECT_EQ(FormatsOf(*cache, id, 2), "int8*13");
  cache->CheckInvariants();
  cache->Release(other);
  Append(cache.get(), id, 1, 1);
  EXPECT_EQ(FormatsOf(*cache, id, 2), "int8*1 int4*4 int8*9");
  cache->CheckInvariants();
}

TEST(KvCacheSealingTest, TheRealBitsAndBytesAreReported) {
  const auto cache = NewCache(SmolLm2(), 64 << 20, "int4");
  constexpr std::uint64_t kOpenPage = 64 + 2 * 1024;
  constexpr std::uint64_t kSealedPage = 64 + 2 * 512;
  constexpr std::uint64_t kOpenBlock = 30 * 3 * kOpenPage;
  constexpr std::uint64_t kSealedBlock = 4 * 3 * kOpenPage + 26 * 3 * kSealedPage;
  EXPECT_EQ(cache->bytes_per_token(), kSealedBlock / 16);
  EXPECT_EQ(cache->contiguous_bytes(2048),
            120 * kSealedBlock - kSealedBlock + 9 * kOpenBlock);  // 119 of 128 blocks are sealed
  const SequenceId id = *cache->CreateSequence();
  EXPECT_EQ(cache->bits_per_value(id), 0);
  ASSERT_TRUE(cache->Reserve(id, 2048).ok());
  cache->Commit(id, 100);
  EXPECT_DOUBLE_EQ(cache->bits_per_value(id), 8.25);
  cache->Commit(id, 1948);
  const double bytes = 119 * kSealedBlock + 9 * kOpenBlock;
  EXPECT_DOUBLE_EQ(cache->bits_per_value(id), 8 * bytes / (2048.0 * 30 * 3 * 2 * 64));
  EXPECT_NEAR(cache->bits_per_value(id), 5.02, 0.01);
  EXPECT_EQ(cache->Balance().live_private_bytes, static_cast<std::uint64_t>(bytes));
  const SequenceId exact = *cache->CreateSequence({"f16", "f16"});
  Append(cache.get(), exact, 3, 1);
  EXPECT_DOUBLE_EQ(cache->bits_per_value(exact), 16);
}

TEST(KvCacheSealingTest, OpenFramesOfAFormatShareTheSizeClassOfInt8) {
  const auto cache = NewCache(SixLayers(), 4 << 20, "int4");
  const SequenceId id = *cache->CreateSequence();
  const SequenceId int8 = *cache->CreateSequence({"int8", "int8"});
  Append(cache.get(), id, 200, 1);
  Append(cache.get(), int8, 200, 1);
  EXPECT_EQ(RunsOf(*cache, id, 2)[0].base, RunsOf(*cache, int8, 2)[0].base);
  EXPECT_NE(RunsOf(*cache, id, 2)[1].base, RunsOf(*cache, int8, 2)[0].base);
  EXPECT_EQ(RunsOf(*cache, int8, 2).size(), 1U);
  // The kernel counts what is charged, in both size classes.
  std::uint64_t resident = ResidentBytes(RunsOf(*cache, id, 2)[0].base, 1).value() +
                           ResidentBytes(RunsOf(*cache, id, 2)[1].base, 1).value();
  const KvBalance balance = cache->Balance();
  EXPECT_EQ(resident, balance.live_private_bytes + balance.live_shared_bytes + balance.free_bytes);
}

}  // namespace
}  // namespace swiftkv
