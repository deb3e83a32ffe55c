// SPDX-License-Identifier: Apache-2.0
// Tests the requests of `bench capacity` and the memory that it gives them.
#include "tools/bench_capacity_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tools/bench_capacity_allocators.h"

namespace swiftkv {
namespace {

constexpr int kVocabulary = 500;

TEST(BenchCapacityRequestsTest, LengthsAreThoseDrawnAndTokensAreOfTheVocabulary) {
  BenchCapacityOptions options;
  options.requests = 50;
  const auto requests = MakeCapacityRequests(options, kVocabulary).value();
  const auto drawn = DrawLengths(FindLengths(options.lengths).value(), 50, 1);
  ASSERT_EQ(requests.size(), 50U);
  std::set<std::vector<std::int32_t>> beginnings;
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(requests[i].prompt.size(), static_cast<std::size_t>(drawn[i].prompt));
    EXPECT_EQ(requests[i].output, drawn[i].output);
    for (const std::int32_t token : requests[i].prompt)
      EXPECT_TRUE(token >= 0 && token < kVocabulary);
    const auto first = requests[i].prompt.begin();
    beginnings.insert({first, first + std::min<std::ptrdiff_t>(drawn[i].prompt, 8)});
  }
  EXPECT_EQ(beginnings.size(), 50U) << "no block is shared by accident";
}

TEST(BenchCapacityRequestsTest, TheSharedBeginningComesOnTopAndNothingPassesTheGreatestLength) {
  BenchCapacityOptions options;
  options.requests = 200;
  options.shared_tokens = 100;
  options.max_length = 300;
  const auto requests = MakeCapacityRequests(options, kVocabulary).value();
  const std::vector<std::int32_t> shared(requests[0].prompt.begin(),
                                         requests[0].prompt.begin() + 100);
  int cut = 0;
  for (const CapacityRequest& request : requests) {
    ASSERT_GT(request.prompt.size(), 100U) << "a token of its own at least";
    EXPECT_TRUE(std::equal(shared.begin(), shared.end(), request.prompt.begin()));
    EXPECT_GE(request.output, 1);
    const auto total = static_cast<int>(request.prompt.size()) + request.output;
    EXPECT_LE(total, 300);
    cut += total == 300 ? 1 : 0;
  }
  EXPECT_GT(cut, 0);
}

TEST(BenchCapacityRequestsTest, MemoryHoldsItsReservationsAndNotOneMore) {
  const std::vector<LayerShape> layers(6, {.kv_heads = 3, .head_dim = 64});
  for (const int count : {1, 2, 8}) {
    KvCacheOptions options;
    options.layers = layers;
    options.memory_bytes = BytesOfReservations(layers, count, 512).value();
    EXPECT_GE(options.memory_bytes,
              KvCache::Create(options).value()->contiguous_bytes(512 * count));
    const auto cache = KvCache::Create(options).value();
    for (int i = 0; i < count; ++i) {
      const SequenceId sequence = cache->CreateSequence().value();
      EXPECT_TRUE(cache->Reserve(sequence, 512).ok()) << i << " of " << count;
    }
    EXPECT_FALSE(cache->Reserve(cache->CreateSequence().value(), 512).ok());
  }
}

}  // namespace
}  // namespace swiftkv
