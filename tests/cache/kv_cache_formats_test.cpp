// SPDX-License-Identifier: Apache-2.0
// Checks that sequences of one cache may be in different formats, side by side and within one
// bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cache/constant_rows.h"

namespace swiftkv {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

PageRun OnlyRun(const KvCache& cache, SequenceId id) {
  std::vector<PageRun> runs;
  cache.AppendRuns(id, 0, 0, &runs);
  EXPECT_EQ(runs.size(), 1U);
  return runs.at(0);
}

TEST(KvCacheFormatsTest, EachSequenceHoldsAndReportsItsOwnFormat) {
  const auto cache = NewCache(ThreeHeads(), 1 << 20, "f16");
  const SequenceId exact = *cache->CreateSequence();
  const SequenceId wide = *cache->CreateSequence({"f32", "f32"});
  const SequenceId mixed = *cache->CreateSequence({"f32", "bf16"});
  for (int i = 0; i < 3; ++i) {
    for (const SequenceId id : {exact, wide, mixed}) Append(cache.get(), id, 11, 1.0F + i);
    cache->CheckInvariants();
  }
  EXPECT_EQ(VisibleKeys(*cache, exact), VisibleKeys(*cache, wide));
  EXPECT_EQ(VisibleKeys(*cache, exact), VisibleKeys(*cache, mixed));
  EXPECT_EQ(cache->format_name(), "f16");
  EXPECT_EQ(cache->format_name(exact), "f16");
  EXPECT_EQ(cache->format_name(wide), "f32");
  EXPECT_EQ(cache->format_name(mixed), "f32/bf16");
  EXPECT_EQ(cache->format_quality(wide), Quality::kExact);
  EXPECT_EQ(cache->format_quality(mixed), Quality::kNear);
  EXPECT_EQ(cache->bytes_per_token(exact), 3U * 3 * 32 * 2 * 2);
  EXPECT_EQ(cache->bytes_per_token(wide), 3U * 3 * 32 * 2 * 4);
  EXPECT_EQ(cache->bytes_per_token(mixed), 3U * 3 * 32 * (4 + 2));
  EXPECT_STREQ(OnlyRun(*cache, wide).format.value->info().name, "f32");
  EXPECT_STREQ(OnlyRun(*cache, mixed).format.value->info().name, "bf16");
}

TEST(KvCacheFormatsTest, AForkKeepsItsParentsFormat) {
  const auto cache = NewCache(OneSmallHead(), 1 << 20, "f16");
  const SequenceId parent = *cache->CreateSequence({"f32", "f32"});
  Append(cache.get(), parent, 20, 1);
  const SequenceId child = *cache->Fork(parent);
  Append(cache.get(), child, 20, 0.1F);
  EXPECT_EQ(cache->format_name(child), "f32");
  EXPECT_EQ(VisibleKeys(*cache, child).back(), 0.1F);
  cache->CheckInvariants();
}

TEST(KvCacheFormatsTest, FormatsWithFramesOfOneSizeShareTheirSizeClass) {
  const auto cache = NewCache(OneSmallHead(), 1 << 20, "f16");
  const SequenceId f16 = *cache->CreateSequence();
  const SequenceId bf16 = *cache->CreateSequence({"bf16", "bf16"});
  const SequenceId f32 = *cache->CreateSequence({"f32", "f32"});
  for (const SequenceId id : {f16, bf16, f32}) Append(cache.get(), id, 1, 1);
  EXPECT_EQ(OnlyRun(*cache, f16).base, OnlyRun(*cache, bf16).base);
  EXPECT_NE(OnlyRun(*cache, f16).frames[0], OnlyRun(*cache, bf16).frames[0]);
  EXPECT_NE(OnlyRun(*cache, f16).base, OnlyRun(*cache, f32).base);
}

TEST(KvCacheFormatsTest, LayerGroupsWithFramesOfOneSizeShareTheirSizeClass) {
  const auto cache = NewCache(EqualFrames(), 1 << 20, "f16");  // layer 0 slides, layer 1 does not
  const SequenceId id = *cache->CreateSequence();
  Append(cache.get(), id, 1, 1);
  std::vector<PageRun> runs;
  cache->AppendRuns(id, 0, 0, &runs);
  cache->AppendRuns(id, 1, 0, &runs);
  EXPECT_EQ(runs.at(0).base, runs.at(1).base);
  EXPECT_NE(runs.at(0).frames[0], runs.at(1).frames[0]);
}

TEST(KvCacheFormatsTest, OneBoundHoldsForAllFormatsTogether) {
  const auto cache = NewCache(ThreeHeads(), 512 << 10, "f16");
  const SequenceId f16 = *cache->CreateSequence();
  while (cache->Reserve(f16, 16).ok()) cache->Commit(f16, 16);
  const auto f32 = cache->CreateSequence({"f32", "f32"});
  if (f32.ok()) {
    EXPECT_EQ(cache->Reserve(*f32, 1).code(), StatusCode::kResourceExhausted);
  }
  cache->CheckInvariants();
  cache->Release(f16);
  const SequenceId next = *cache->CreateSequence({"f32", "f32"});
  EXPECT_TRUE(cache->Reserve(next, 200).ok());
  EXPECT_LE(cache->Balance().peak_bytes, 512U << 10);
  cache->CheckInvariants();
}

TEST(KvCacheFormatsTest, AFormatThatIsRefusedChangesNothing) {
  const auto cache = NewCache(OneSmallHead(), 1 << 20, "f16");
  const std::uint64_t mapped = cache->Balance().mapped_bytes;
  const auto unknown = cache->CreateSequence({"f16", "int3"});
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().message(), EndsWith("not: int3"));
  EXPECT_EQ(cache->Balance().mapped_bytes, mapped);

  // Room for three frames of eight OS pages, three pages of arrays and one of heap.
  const auto tiny = NewCache({"thin_layers", Repeat(32, {1, 16, 0})}, 28 << 12, "f16");
  const SequenceId id = *tiny->CreateSequence();
  while (tiny->Reserve(id, 16).ok()) tiny->Commit(id, 16);
  bool refused = false;
  for (const char* key : {"f32", "bf16", "f16"}) {
    for (const char* value : {"f32", "bf16", "f16"}) {
      const auto other = tiny->CreateSequence({key, value});
      if (!other.ok()) {
        EXPECT_EQ(other.status().code(), StatusCode::kResourceExhausted);
        EXPECT_THAT(other.status().message(), HasSubstr("more"));
        refused = true;
      }
      tiny->CheckInvariants();
    }
  }
  EXPECT_TRUE(refused) << "the bound was never met: the case proves little";
}

}  // namespace
}  // namespace swiftkv
