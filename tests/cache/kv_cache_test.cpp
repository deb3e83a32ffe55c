// SPDX-License-Identifier: Apache-2.0
// Checks the promises of include/swiftkv/kv_cache.h one by one.
#include "swiftkv/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "base/process_memory.h"
#include "cache/cache_geometries.h"

namespace swiftkv {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::unique_ptr<KvCache> NewCache(const TestGeometry& geometry, std::uint64_t memory_bytes,
                                  const char* format = "f16", bool poison = false) {
  KvCacheOptions options;
  options.layers = geometry.layers;
  options.key_format = options.value_format = format;
  options.memory_bytes = memory_bytes;
  options.poison_free_frames = poison;
  auto cache = KvCache::Create(options);
  EXPECT_TRUE(cache.ok()) << cache.status().message();
  return std::move(cache).value();
}

// Stores `count` tokens whose every K value is `value` and whose V values are its negative.
void StoreConstant(const KvCache& cache, SequenceId id, std::int64_t position, int count,
                   float value) {
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    const LayerShape& shape = cache.layer(layer);
    const auto stride = static_cast<std::size_t>(shape.kv_heads * shape.head_dim);
    const std::vector<float> keys(stride * static_cast<std::size_t>(count), value);
    const std::vector<float> values(keys.size(), -value);
    cache.StoreRows({.sequence = id,
                     .layer = layer,
                     .first_position = position,
                     .num_tokens = count,
                     .first_head = 0,
                     .end_head = shape.kv_heads,
                     .keys = keys.data(),
                     .values = values.data(),
                     .token_stride = stride});
  }
}

void Append(KvCache* cache, SequenceId id, int count, float value) {
  const Status status = cache->Reserve(id, count);
  ASSERT_TRUE(status.ok()) << status.message();
  StoreConstant(*cache, id, cache->Length(id), count, value);
  cache->Commit(id, count);
}

// Returns the first channel of every K row that the last query of `layer` may see, head 0.
std::vector<float> VisibleKeys(const KvCache& cache, SequenceId id, int layer = 0) {
  std::vector<PageRun> runs;
  cache.AppendRuns(id, layer, 0, &runs);
  std::vector<float> result;
  const int dim = cache.layer(layer).head_dim;
  std::vector<float> row(static_cast<std::size_t>(dim));
  for (const PageRun& run : runs) {
    for (int t = 0; t < run.num_tokens; ++t) {
      const std::byte* const page = run.Page(t / kPageTokens, 0);
      run.format.key->Decode(KeyPlane(run.format, run.layout, dim, page), {t % kPageTokens, 1},
                             row.data(), row.size());
      result.push_back(row[0]);
    }
  }
  return result;
}

const std::byte* PageAt(const KvCache& cache, SequenceId id, int page) {
  std::vector<PageRun> runs;
  cache.AppendRuns(id, 0, 0, &runs);
  return runs.at(0).Page(page, 0);
}

TEST(KvCacheTest, ForkSharesEveryPageUntilOneOfTheTwoWrites) {
  for (int remainder : {1, 5, 15}) {
    const auto cache = NewCache(ThreeHeads(), 1 << 20);
    const SequenceId parent = *cache->CreateSequence();
    Append(cache.get(), parent, 32 + remainder, 1);
    const std::uint64_t mapped = cache->Balance().mapped_bytes;
    const SequenceId child = *cache->Fork(parent);
    EXPECT_LE(cache->Balance().mapped_bytes - mapped, 4096U) << "a fork copies no page";
    EXPECT_EQ(cache->Balance().live_private_bytes, 0U);
    for (int page = 0; page < 3; ++page) {
      EXPECT_EQ(PageAt(*cache, parent, page), PageAt(*cache, child, page));
    }
    // Both go on from the half-filled page with tokens of their own, in turns.
    for (int i = 0; i < 20; ++i) {
      Append(cache.get(), parent, 1, 2);
      Append(cache.get(), child, 1, 3);
      cache->CheckInvariants();
    }
    std::vector<float> expected(static_cast<std::size_t>(32 + remainder), 1.0F);
    std::vector<float> other = expected;
    expected.insert(expected.end(), 20, 2.0F);
    other.insert(other.end(), 20, 3.0F);
    EXPECT_EQ(VisibleKeys(*cache, parent), expected);
    EXPECT_EQ(VisibleKeys(*cache, child), other);
    EXPECT_EQ(PageAt(*cache, parent, 1), PageAt(*cache, child, 1));
    EXPECT_NE(PageAt(*cache, parent, 2), PageAt(*cache, child, 2));
  }
}

TEST(KvCacheTest, OfManyForksEachSeesItsOwnTailAndTheLastWriterNeedsNoCopy) {
  const auto cache = NewCache(OneSmallHead(), 1 << 20);
  std::vector<SequenceId> all = {*cache->CreateSequence()};
  Append(cache.get(), all[0], 21, 1);
  for (int i = 0; i < 7; ++i) all.push_back(*cache->Fork(all[static_cast<std::size_t>(i)]));
  for (std::size_t i = 0; i < all.size(); ++i) {
    Append(cache.get(), all[i], 1, 10.0F + static_cast<float>(i));
  }
  cache->CheckInvariants();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<float> keys = VisibleKeys(*cache, all[i]);
    EXPECT_EQ(keys[20], 1);
    EXPECT_EQ(keys[21], 10.0F + static_cast<float>(i));
  }
  // One shared block and eight tails: the eighth writer kept the original.
  const KvBalance balance = cache->Balance();
  EXPECT_EQ(balance.live_shared_bytes, 2048U);
  EXPECT_EQ(balance.live_private_bytes, 8 * 2048U);
}

TEST(KvCacheTest, AForkEndsTheParentsReservation) {
  const auto cache = NewCache(OneSmallHead(), 1 << 20);
  const SequenceId parent = *cache->CreateSequence();
  Append(cache.get(), parent, 20, 1);
  ASSERT_TRUE(cache->Reserve(parent, 50).ok());
  const SequenceId child = *cache->Fork(parent);
  cache->CheckInvariants();
  EXPECT_DEATH(StoreConstant(*cache, parent, 20, 1, 2), "rows go to reserved positions");
  Append(cache.get(), parent, 1, 2);
  EXPECT_EQ(VisibleKeys(*cache, child), std::vector<float>(20, 1.0F));
}

TEST(KvCacheTest, ARefusedReservationChangesNothingAndSaysWhatWasMissing) {
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

TEST(KvCacheTest, TheBoundHoldsForWhatTheKernelCounts) {
  constexpr std::uint64_t kLimit = 40 << 20;
  const std::uint64_t before = ProcessResidentBytes().value();
  const auto cache = NewCache(SmolLm2(), kLimit);
  std::vector<SequenceId> sequences;
  for (int i = 0; i < 8; ++i) sequences.push_back(*cache->CreateSequence());
  bool full = false;
  for (int round = 0; round < 60 && !full; ++round) {
    for (const SequenceId id : sequences) {
      if (!cache->Reserve(id, 7).ok()) {
        full = true;
        break;
      }
      StoreConstant(*cache, id, cache->Length(id), 7, 1);
      cache->Commit(id, 7);
    }
  }
  ASSERT_TRUE(full);
  const std::uint64_t resident = ProcessResidentBytes().value() - before;
  EXPECT_LE(cache->Balance().peak_bytes, kLimit);
  EXPECT_LE(resident, kLimit + (1 << 20));  // test's own rows
  EXPECT_GE(resident + (1 << 20), cache->Balance().mapped_bytes);
  for (const SequenceId id : sequences) cache->Release(id);
  EXPECT_EQ(cache->Balance().live_private_bytes, 0U);
  EXPECT_LE(ProcessResidentBytes().value() - before, 2U << 20) << "bytes stayed with the process";
}

TEST(KvCacheTest, LongSequencesWasteLessThanFourPercent) {
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

TEST(KvCacheTest, AWindowGroupKeepsWhatItsWindowNeedsAndNoMore) {
  // Layers 0 and 1 see 21 tokens, layer 2 everything.
  const auto cache = NewCache(ShortWindow(), 4 << 20);
  const SequenceId id = *cache->CreateSequence();
  for (int length = 1; length <= 200; ++length) {
    Append(cache.get(), id, 1, static_cast<float>(length));
    const std::vector<float> seen = VisibleKeys(*cache, id, 0);
    const int oldest = std::max(0, length - 21 + 1);  // the next query stands at `length`
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(length - oldest / 16 * 16));
    EXPECT_EQ(seen.back(), static_cast<float>(length));
    EXPECT_EQ(VisibleKeys(*cache, id, 2).size(), static_cast<std::size_t>(length));
  }
  cache->CheckInvariants();
}

TEST(KvCacheTest, ALongPrefillInChunksNeedsWindowAndChunkOnly) {
  const TestGeometry geometry = {"window", Repeat(2, {1, 64, 128})};
  // Window: 128 / 16 + 1 blocks; chunk: 64 / 16 + 1; 8 KiB each; and bookkeeping.
  const auto cache = NewCache(geometry, (9 + 5) * 8192 + 6 * 4096);
  const SequenceId id = *cache->CreateSequence();
  for (int chunk = 0; chunk < 200; ++chunk) Append(cache.get(), id, 64, 1);
  EXPECT_EQ(cache->Length(id), 12800);
  EXPECT_LE(cache->Balance().live_private_bytes, 9U * 8192);
  cache->CheckInvariants();
}

TEST(KvCacheTest, TruncateForgetsTheTailAndNeverTouchesAFork) {
  const auto cache = NewCache(ThreeHeads(), 1 << 20);
  const SequenceId id = *cache->CreateSequence();
  Append(cache.get(), id, 40, 1);
  const SequenceId fork = *cache->Fork(id);
  ASSERT_TRUE(cache->Truncate(id, 20).ok());
  EXPECT_EQ(cache->Length(id), 20);
  Append(cache.get(), id, 3, 2);
  EXPECT_EQ(VisibleKeys(*cache, fork), std::vector<float>(40, 1.0F));
  std::vector<float> expected(20, 1.0F);
  expected.insert(expected.end(), 3, 2.0F);
  EXPECT_EQ(VisibleKeys(*cache, id), expected);
  ASSERT_TRUE(cache->Truncate(id, 0).ok());
  EXPECT_TRUE(VisibleKeys(*cache, id).empty());
  cache->CheckInvariants();
}

TEST(KvCacheTest, TruncateRefusesWhereAWindowLacksWhatAQueryWouldSee) {
  const auto cache = NewCache(ShortWindow(), 4 << 20);  // window 21
  const SequenceId id = *cache->CreateSequence();
  Append(cache.get(), id, 100, 1);  // the window group holds positions from 80 on
  EXPECT_TRUE(cache->Truncate(id, 100).ok());
  const Status status = cache->Truncate(id, 99);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("window of 21 tokens hold positions from 80 on"));
  EXPECT_THAT(status.message(), EndsWith("length: 99"));
  EXPECT_EQ(cache->Length(id), 100);
  EXPECT_EQ(cache->Truncate(id, 101).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->Truncate(id, -1).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(cache->Truncate(id, 0).ok());  // nothing is seen from there
  Append(cache.get(), id, 30, 2);
  EXPECT_EQ(VisibleKeys(*cache, id, 0), std::vector<float>(30, 2.0F));
  cache->CheckInvariants();
}

TEST(KvCacheTest, PagesOfPoisonedFramesNeverReachAReader) {
  for (const char* format : {"f16", "bf16", "f32"}) {
    const auto cache = NewCache(OneSmallHead(), 48 << 10, format, true);
    for (int round = 0; round < 30; ++round) {  // a tiny pool, used over and over
      const SequenceId id = *cache->CreateSequence();
      Append(cache.get(), id, 16 * (round % 3) + 1, std::numeric_limits<float>::quiet_NaN());
      Append(cache.get(), id, 1 + round % 5, std::numeric_limits<float>::infinity());
      const SequenceId fork = *cache->Fork(id);
      Append(cache.get(), fork, 1, 1);
      for (const SequenceId reader : {id, fork}) {
        for (float key : VisibleKeys(*cache, reader)) ASSERT_TRUE(std::isfinite(key)) << format;
      }
      cache->Release(id);
      cache->Release(fork);
      cache->CheckInvariants();
    }
  }
}

TEST(KvCacheTest, ThreadsStoreDisjointHeadsTokensAndLayersTogether) {
  const auto cache = NewCache(ThreeHeads(), 8 << 20);
  const SequenceId id = *cache->CreateSequence();
  constexpr int kTokens = 203;
  ASSERT_TRUE(cache->Reserve(id, kTokens).ok());
  const std::size_t stride = 3 * 32;
  std::vector<float> rows(stride * kTokens);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 2048);
  std::vector<std::thread> threads;
  for (int head = 0; head < 3; ++head) {
    for (int half = 0; half < 2; ++half) {  // both halves meet within one page
      threads.emplace_back([&, head, half] {
        const int first = half == 0 ? 0 : 100;
        const int count = half == 0 ? 100 : kTokens - 100;
        for (int layer = 0; layer < cache->num_layers(); ++layer) {
          const float* const start = rows.data() + static_cast<std::size_t>(first) * stride;
          cache->StoreRows({.sequence = id,
                            .layer = layer,
                            .first_position = first,
                            .num_tokens = count,
                            .first_head = head,
                            .end_head = head + 1,
                            .keys = start,
                            .values = start,
                            .token_stride = stride});
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  cache->Commit(id, kTokens);
  std::vector<PageRun> runs;
  cache->AppendRuns(id, 2, 0, &runs);
  ASSERT_EQ(runs.size(), 1U);
  std::vector<float> row(32);
  for (int t = 0; t < kTokens; ++t) {
    for (int head = 0; head < 3; ++head) {
      const std::byte* const page = runs[0].Page(t / kPageTokens, head);
      runs[0].format.value->Decode(ValuePlane(runs[0].format, runs[0].layout, 32, page),
                                   {t % kPageTokens, 1}, row.data(), row.size());
      for (int c = 0; c < 32; ++c) {
        const std::size_t at =
            static_cast<std::size_t>(t) * stride + static_cast<std::size_t>(head * 32 + c);
        ASSERT_EQ(row[static_cast<std::size_t>(c)], rows[at]);
      }
    }
  }
}

TEST(KvCacheTest, ViewsOfReservedTokensAreThereBeforeTheyAreCommitted) {
  const auto cache = NewCache(ThreeHeads(), 1 << 20);
  const SequenceId id = *cache->CreateSequence();
  std::vector<PageRun> runs;
  cache->AppendRuns(id, 0, 0, &runs);
  EXPECT_TRUE(runs.empty());
  Append(cache.get(), id, 20, 1);
  ASSERT_TRUE(cache->Reserve(id, 30).ok());
  StoreConstant(*cache, id, 20, 30, 2);
  cache->AppendRuns(id, 0, 30, &runs);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].num_tokens, 50);
  EXPECT_EQ(runs[0].num_pages, 4);
  EXPECT_EQ(runs[0].first_position, 0);
  EXPECT_EQ(runs[0].first_head, 0);
  EXPECT_EQ(runs[0].end_head, 3);
  EXPECT_EQ(runs[0].positions, nullptr);
  cache->Commit(id, 12);  // the other 18 stay reserved
  EXPECT_EQ(cache->Length(id), 32);
  StoreConstant(*cache, id, 49, 1, 3);
  cache->Commit(id, 18);
  EXPECT_EQ(cache->Length(id), 50);
  EXPECT_EQ(VisibleKeys(*cache, id)[49], 3);
}

TEST(KvCacheTest, BytesPerTokenAndContiguousBytesAreThoseOfTheModel) {
  const auto smollm2 = NewCache(SmolLm2(), 8 << 20);
  EXPECT_EQ(smollm2->bytes_per_token(), 23040U);  // 30 layers x 3 heads x 64 x (K, V) x 2 bytes
  EXPECT_EQ(smollm2->contiguous_bytes(8192), 8192U * 23040);
  EXPECT_EQ(smollm2->format_name(), "f16");
  EXPECT_EQ(smollm2->format_quality(), Quality::kExact);
  const auto gemma = NewCache(Gemma3(), 8 << 20, "bf16");
  EXPECT_EQ(gemma->bytes_per_token(), 18U * 256 * 2 * 2);
  EXPECT_EQ(gemma->format_quality(), Quality::kNear);
}

TEST(KvCacheTest, BadOptionsAreRefusedByTheirValue) {
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

TEST(KvCacheTest, TheSmallestBoundHoldsABlockAndAnAbsurdOneIsRefused) {
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

TEST(KvCacheTest, AStaleIdStopsTheProcess) {
  const auto cache = NewCache(OneSmallHead(), 1 << 20);
  const SequenceId id = *cache->CreateSequence();
  cache->Release(id);
  const SequenceId next = *cache->CreateSequence();
  EXPECT_NE(id, next);
  EXPECT_DEATH((void)cache->Length(id), "no live sequence");
}

}  // namespace
}  // namespace swiftkv
