// SPDX-License-Identifier: Apache-2.0
// Tests estimates of memory against sequences that grow in a cache.
#include "engine/memory_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "swiftkv/page_view.h"

namespace swiftkv {
namespace {

constexpr std::int64_t kNext = 48;  // tokens beyond the known ones that are promised

struct Trial {
  std::vector<LayerShape> layers;
  KvFormat format;
  int common = 0;  // tokens that another sequence has computed
  int prompt = 0;
  int rows = 0;  // of a step at most
};

std::vector<std::int32_t> Tokens(int common, int count, int variant) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    tokens[static_cast<std::size_t>(i)] = i < common ? i : 1000 * variant + i;
  }
  return tokens;
}

// One sequence in a cache that another one has filled with a common beginning.
class Growth {
 public:
  explicit Growth(const Trial& trial)
      : trial_(trial),
        footprint_(KvFootprint::Make(trial.layers, trial.format.key, trial.format.value).value()) {
    KvCacheOptions options;
    options.layers = trial.layers;
    options.key_format = trial.format.key;
    options.value_format = trial.format.value;
    options.memory_bytes = 256 << 20;
    options.huge_pages = false;
    cache_ = KvCache::Create(options).value();
    PrefixScope scope;
    scope.allowed = Quality::kAny;
    other_ = cache_->CreateSequence(trial.format, scope).value();
    Compute(other_, Tokens(trial.common, trial.common + 200, 1));
    sequence_ = cache_->CreateSequence(trial.format, scope).value();
    tokens_ = Tokens(trial.common, trial.prompt, 2);
    found_ = cache_->AdoptPrefix(sequence_, tokens_).value().tokens;
  }

  std::uint64_t LiveBytes() const {
    const KvBalance balance = cache_->Balance();
    return balance.live_private_bytes + balance.live_shared_bytes;
  }

  MemoryEstimate Estimate() const {
    MemoryDemand demand;
    demand.tokens = static_cast<std::int64_t>(tokens_.size());
    demand.computed = cache_->Length(sequence_);
    demand.shared = found_;
    demand.step_rows = trial_.rows;
    return EstimateMemory(footprint_, demand);
  }

  // Returns what it takes while the step's rows are stored and nothing was given back.
  std::uint64_t Step() {
    const std::int64_t computed = cache_->Length(sequence_);
    const auto known = static_cast<std::int64_t>(tokens_.size());
    const auto rows = std::min<std::int64_t>(trial_.rows, known - computed);
    EXPECT_TRUE(cache_->Reserve(sequence_, static_cast<int>(rows)).ok());
    const std::uint64_t bytes = LiveBytes();
    cache_->Commit(sequence_, std::span(tokens_).subspan(static_cast<std::size_t>(computed),
                                                         static_cast<std::size_t>(rows)));
    if (cache_->Length(sequence_) == known) tokens_.push_back(7);
    return bytes;
  }

  void Run() {
    struct Moment {
      std::int64_t known;
      std::uint64_t live;
      std::uint64_t to_come;
    };
    // Without its place it does not have the copy of a block that is found in part.
    const std::uint64_t copy = found_ % kPageTokens == 0 ? 0 : footprint_.ReservedBytes(1);
    std::vector<Moment> moments = {{trial_.prompt, LiveBytes() - copy, Estimate().bytes_to_come}};
    while (static_cast<std::int64_t>(tokens_.size()) < trial_.prompt + 3 * kNext) {
      const std::uint64_t bytes = Step();
      const auto known = static_cast<std::int64_t>(tokens_.size());
      for (const Moment& moment : moments) {
        if (known > moment.known + kNext) continue;
        ASSERT_LE(bytes, moment.live + moment.to_come)
            << "promised at " << moment.known << " tokens, needed at " << known;
      }
      moments.push_back({known, LiveBytes(), Estimate().bytes_to_come});
    }
    const std::uint64_t held = Estimate().held_bytes;
    const std::uint64_t before = LiveBytes();
    cache_->Release(sequence_);
    // What it computed though the other one had it is one copy in the end.
    if (found_ == trial_.common) {
      EXPECT_GE(before - LiveBytes(), held);
    }
  }

  std::int64_t found() const { return found_; }

 private:
  void Compute(SequenceId sequence, const std::vector<std::int32_t>& tokens) {
    for (std::size_t at = 0; at < tokens.size(); at += 16) {
      const auto chunk =
          std::span(tokens).subspan(at, std::min<std::size_t>(16, tokens.size() - at));
      EXPECT_TRUE(cache_->Reserve(sequence, static_cast<int>(chunk.size())).ok());
      cache_->Commit(sequence, chunk);
    }
  }

  Trial trial_;
  KvFootprint footprint_;
  std::unique_ptr<KvCache> cache_;
  SequenceId other_{};
  SequenceId sequence_{};
  std::vector<std::int32_t> tokens_;
  std::int64_t found_ = 0;
};

std::vector<LayerShape> SixLayers(int window) {
  std::vector<LayerShape> layers(6, {.kv_heads = 1, .head_dim = 64, .window = 0});
  for (std::size_t i = 0; i < layers.size(); i += 2) layers[i].window = window;
  return layers;
}

TEST(MemoryEstimateTest, NoSequenceEverTakesMoreThanItWasPromised) {
  for (const char* format : {"f16", "int4"}) {
    for (const int window : {0, 32, 40, 200}) {
      for (const int common : {0, 64, 75, 331}) {
        for (const int rows : {1, 48, 512}) {
          const Trial trial = {.layers = SixLayers(window),
                               .format = {format, format},
                               .common = common,
                               .prompt = common + 150,
                               .rows = rows};
          SCOPED_TRACE(std::string(format) + ", window " + std::to_string(window) + ", common " +
                       std::to_string(common) + ", rows " + std::to_string(rows));
          Growth(trial).Run();
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(MemoryEstimateTest, APartOfABlockThatIsFoundSavesNoMemory) {
  const auto to_come = [](int common) {
    const Growth growth(
        {.layers = SixLayers(0), .format = {}, .common = common, .prompt = 200, .rows = 512});
    EXPECT_EQ(growth.found(), common);
    return growth.Estimate().bytes_to_come;
  };
  EXPECT_EQ(to_come(64), to_come(75));
  EXPECT_GT(to_come(75), to_come(80));
}

TEST(MemoryEstimateTest, FurtherChoicesCopyTheLastBlockAndGrowByThemselves) {
  const KvFootprint footprint = KvFootprint::Make(SixLayers(0), "f16", "f16").value();
  const std::uint64_t block = footprint.ReservedBytes(1);
  MemoryDemand demand = {.tokens = 40, .step_rows = 512};
  EXPECT_EQ(EstimateMemory(footprint, demand).bytes_to_come, 6 * block);  // 40 + 48 tokens
  demand.further_choices = 3;
  EXPECT_EQ(EstimateMemory(footprint, demand).bytes_to_come, (6 + 3 * 4) * block);
  demand.growth = 4;  // the rest of the third block
  EXPECT_EQ(EstimateMemory(footprint, demand).bytes_to_come, (3 + 3 * 1) * block);
  EXPECT_EQ(EstimateMemory(footprint, demand).bytes_to_grow, 0U);
}

TEST(MemoryEstimateTest, AReservationIsAllThatItEverTakes) {
  const KvFootprint footprint = KvFootprint::Make(SixLayers(32), "f16", "f16").value();
  MemoryDemand demand = {.tokens = 40, .step_rows = 512, .reserved = 100};
  EXPECT_EQ(EstimateMemory(footprint, demand).bytes_to_come, footprint.ReservedBytes(100));
  EXPECT_EQ(EstimateMemory(footprint, demand).held_bytes, 0U);
  demand.has_reserved = true;
  EXPECT_EQ(EstimateMemory(footprint, demand).bytes_to_come, 0U);
  EXPECT_EQ(EstimateMemory(footprint, demand).held_bytes, footprint.ReservedBytes(100));
}

}  // namespace
}  // namespace swiftkv
