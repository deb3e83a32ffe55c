// SPDX-License-Identifier: Apache-2.0
// Checks what a cache costs: its bound, what the kernel counts, waste, and what options it takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/process_memory.h"
#include "cache/constant_rows.h"

namespace swiftkv {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(KvCacheMemoryTest, ARefusedReservationChangesNothingAndSaysWhatWasMissing) {
  const auto cache = NewCache(ShortWindow(), 128 << 10);
  const SequenceId id = *cache->CreateSequence();
  Append(cache.get(), id, 37, 1);
  const SequenceId other = *cache->Fork(id);
  const KvBalance before = cache->Balance();
  for (int tokens : {500, 5000, std::numeric_limits<int>::max()}) {
    const Status status = cache->Reserve(id, tokens);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(),
                EndsWith("left: " + std::to_string(before.limit_bytes - before.mapped_bytes)));
    EXPECT_EQ(cache->Balance().mapped_bytes, before.mapped_bytes);
    EXPECT_EQ(cache->Balance().peak_bytes, before.peak_bytes);
    EXPECT_EQ(cache->Balance().live_shared_bytes, before.live_shared_bytes);
    cache->CheckInvariants();
  }
  EXPECT_EQ(cache->Length(id), 37);
  Append(cache.get(), other, 3, 2);
}

TEST(KvCacheMemoryTest, TheBoundHoldsForWhatTheKernelCounts) {
  constexpr std::uint64_t kLimit = 40 << 20;
  const auto cache = NewCache(SmolLm2(), kLimit);
  const SequenceId first = *cache->CreateSequence();
  Append(cache.get(), first, 1, 1);
  std::vector<PageRun> runs;
  cache->AppendRuns(first, 0, 0, &runs);
  const std::byte* const arena = runs[0].base;
  const std::size_t inside = kLimit - runs[0].frame_stride;  // of the arena's addresses
  std::vector<SequenceId> sequences = {first};
  for (int i = 1; i < 8; ++i) sequences.push_back(*cache->CreateSequence());
  bool full = false;
  while (!full) {
    for (const SequenceId id : sequences) {
      full = !cache->Reserve(id, 7).ok();
      if (full) break;
      StoreConstant(*cache, id, cache->Length(id), 7, 1);
      cache->Commit(id, 7);
    }
    const KvBalance balance = cache->Balance();
    EXPECT_EQ(ResidentBytes(arena, inside).value(),
              balance.live_private_bytes + balance.free_bytes);
  }
  EXPECT_LE(cache->Balance().peak_bytes, kLimit);
  EXPECT_GT(cache->Balance().mapped_bytes, kLimit - runs[0].frame_stride - 4096)
      << "refused although a frame would have fitted";
  for (const SequenceId id : sequences) cache->Release(id);
  EXPECT_EQ(ResidentBytes(arena, inside).value(), 0U);
  EXPECT_EQ(cache->Balance().live_private_bytes + cache->Balance().free_bytes, 0U);
}

TEST(KvCacheMemoryTest, LongSequencesWasteLessThanFourPercent) {
  for (const TestGeometry& geometry : {SmolLm2(), ThreeHeads(), OneSmallHead()}) {
    const auto cache = NewCache(geometry, 200 << 20);
    std::uint64_t tokens = 0;
    for (int length : {503, 997, 2011, 640}) {  // 8 % of 16 apart in their last blocks
      const SequenceId id = *cache->CreateSequence();
      ASSERT_TRUE(cache->Reserve(id, length).ok());
      cache->Commit(id, length);
      tokens += static_cast<std::uint64_t>(length);
    }
    const auto used = static_cast<double>(tokens * cache->bytes_per_token());
    const auto mapped = static_cast<double>(cache->Balance().mapped_bytes);
    EXPECT_LT((mapped - used) / mapped, 0.04) << geometry.name;
    RecordProperty(geometry.name + "_waste", std::to_string((mapped - used) / mapped));
  }
}

TEST(KvCacheMemoryTest, ALongPrefillInChunksNeedsWindowAndChunkOnly) {
  const TestGeometry geometry = {"window", Repeat(2, {1, 64, 128})};
  // Window: 128 / 16 + 1 blocks; chunk: 64 / 16 + 1; 8 KiB each; and bookkeeping.
  const auto cache = NewCache(geometry, (9 + 5) * 8192 + 6 * 4096);
  const SequenceId id = *cache->CreateSequence();
  for (int chunk = 0; chunk < 200; ++chunk) Append(cache.get(), id, 64, 1);
  EXPECT_EQ(cache->Length(id), 12800);
  EXPECT_LE(cache->Balance().live_private_bytes, 9U * 8192);
  cache->CheckInvariants();
}

TEST(KvCacheMemoryTest, BytesPerTokenAndContiguousBytesAreThoseOfTheModel) {
  const auto smollm2 = NewCache(SmolLm2(), 8 << 20);
  EXPECT_EQ(smollm2->bytes_per_token(), 23040U);  // 30 layers x 3 heads x 64 x (K, V) x 2 bytes
  EXPECT_EQ(smollm2->contiguous_bytes(8192), 8192U * 23040);
  EXPECT_EQ(smollm2->format_name(), "f16");
  EXPECT_EQ(smollm2->format_quality(), Quality::kExact);
  const auto gemma = NewCache(Gemma3(), 8 << 20, "bf16");
  EXPECT_EQ(gemma->bytes_per_token(), 18U * 256 * 2 * 2);
  EXPECT_EQ(gemma->format_quality(), Quality::kNear);
}

TEST(KvCacheMemoryTest, BadOptionsAreRefusedByTheirValue) {
  const auto refusal = [](KvCacheOptions options) {
    const auto cache = KvCache::Create(options);
    EXPECT_FALSE(cache.ok());
    EXPECT_EQ(cache.status().code(), StatusCode::kInvalidArgument);
    return cache.status().message();
  };
  KvCacheOptions options;
  options.memory_bytes = 1 << 20;
  EXPECT_THAT(refusal(options), EndsWith("not: 0"));
  options.layers = {{2, 64, 0}, {0, 64, 0}};
  EXPECT_THAT(refusal(options), HasSubstr("layer 1"));
  options.layers = {{2, 72, 0}};
  EXPECT_THAT(refusal(options), EndsWith("not: 72"));
  options.layers = {{2, 64, -5}};
  EXPECT_THAT(refusal(options), EndsWith("not: -5"));
  options.layers = {{2, 64, 0}};
  options.key_format = "int3";
  EXPECT_THAT(refusal(options), EndsWith("not: int3"));
  options.key_format = "f16";
  options.memory_bytes = 4096;
  EXPECT_THAT(refusal(options), HasSubstr("at least 24576 bytes"));
}

TEST(KvCacheMemoryTest, TheSmallestBoundHoldsABlockAndAnAbsurdOneIsRefused) {
  for (const TestGeometry& geometry : {OneSmallHead(), ThreeHeads(), ShortWindow(), AllSliding(),
                                       EqualFrames(), SmolLm2(), Gemma3()}) {
    KvCacheOptions options;
    options.layers = geometry.layers;
    const std::string message = KvCache::Create(options).status().message();
    options.memory_bytes = std::stoull(message.substr(message.find("least ") + 6));
    const auto cache = std::move(KvCache::Create(options)).value();
    const SequenceId id = *cache->CreateSequence();
    EXPECT_TRUE(cache->Reserve(id, 16).ok()) << geometry.name;
    cache->CheckInvariants();
    options.memory_bytes = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(KvCache::Create(options).status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace swiftkv
