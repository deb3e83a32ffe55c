// SPDX-License-Identifier: Apache-2.0
// Holds plans to their budgets, and to a plain recount of their bytes, over all settings.
#include "policy/page_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace swiftkv {
namespace {

constexpr std::uint64_t kDense = 1024;
constexpr std::uint64_t kKept = kDense + 68;  // with positions and a frame number

// A sequence with random scores; layer 2 has a window.
class Sequence {
 public:
  Sequence(std::int64_t length, const BudgetSettings& settings, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::exponential_distribution<float> draw;
    const auto tokens = static_cast<std::size_t>(CompressibleEnd(settings, length));
    positions_.resize(tokens);
    std::iota(positions_.begin(), positions_.end(), 0);
    scores_.resize(kLayers * kHeads);
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      for (std::size_t t = 0; t < tokens; ++t) {
        scores_[i].push_back(draw(random) * static_cast<float>(1 + i % 3));
      }
    }
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      PlannedLayer& planned = layers_.emplace_back();
      planned.layer = static_cast<int>(layer);
      planned.window = layer == 2 ? 512 : 0;
      planned.dense_page_bytes = kDense;
      planned.page_bytes = {kKept, 600, 360};
      planned.page_bytes.resize(settings.format_shares.size());
      for (std::size_t head = 0; head < kHeads; ++head) {
        planned.heads.push_back({scores_[layer * kHeads + head], positions_});
      }
    }
    inputs.length = length;
    inputs.layers = layers_;
    inputs.spared_bytes = 5000;
  }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  PlannedLayer& layer(std::size_t index) { return layers_[index]; }
  const std::vector<float>& scores(int layer, int head) const {
    return scores_[static_cast<std::size_t>(layer) * kHeads + static_cast<std::size_t>(head)];
  }

  static constexpr std::size_t kLayers = 5;
  static constexpr std::size_t kHeads = 3;
  static constexpr std::size_t kPlannedHeads = (kLayers - 1) * kHeads;
  PlanInputs inputs;

 private:
  std::vector<std::int32_t> positions_;
  std::vector<std::vector<float>> scores_;
  std::vector<PlannedLayer> layers_;
};

PagePlan Plan(const BudgetSettings& settings, const Sequence& sequence) {
  const Result<PagePlan> plan = PlanPages(settings, sequence.inputs);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *plan;
}

std::uint64_t RecountBytes(const BudgetSettings& settings, const Sequence& sequence,
                           const PagePlan& plan) {
  const std::int64_t newest =
      sequence.inputs.length - CompressibleEnd(settings, sequence.inputs.length);
  std::uint64_t bytes = 0;
  for (std::int64_t token = 0; token < newest; token += 16)
    bytes += kDense * Sequence::kPlannedHeads;
  for (const HeadPlan& head : plan.heads) {
    const auto& page_bytes =
        sequence.inputs.layers[static_cast<std::size_t>(head.layer)].page_bytes;
    for (std::size_t format = 0; format < head.kept.size(); ++format) {
      for (std::size_t i = 0; i < head.kept[format].size(); i += 16) bytes += page_bytes[format];
    }
  }
  return bytes;
}

// The format of every token of a head that is kept.
std::map<std::int32_t, std::size_t> Formats(const HeadPlan& head) {
  std::map<std::int32_t, std::size_t> formats;
  for (std::size_t format = 0; format < head.kept.size(); ++format) {
    for (const std::int32_t index : head.kept[format]) {
      EXPECT_TRUE(formats.emplace(index, format).second) << "kept twice";
    }
  }
  return formats;
}

void ExpectSound(const BudgetSettings& settings, const Sequence& sequence, const PagePlan& plan) {
  ASSERT_EQ(plan.heads.size(), Sequence::kPlannedHeads);
  EXPECT_EQ(plan.bytes, RecountBytes(settings, sequence, plan));
  EXPECT_TRUE(plan.guards_exceed_budget || plan.bytes <= plan.budget_bytes);
  std::int64_t kept = 0;
  for (const HeadPlan& head : plan.heads) {
    EXPECT_NE(head.layer, 2);
    ASSERT_EQ(head.kept.size(), settings.format_shares.size());
    const std::size_t tokens = sequence.scores(head.layer, head.head).size();
    for (const auto& of_format : head.kept) {
      EXPECT_TRUE(std::is_sorted(of_format.begin(), of_format.end()));
      EXPECT_EQ(of_format.size() % 16, 0U);  // candidates are whole blocks here
      EXPECT_TRUE(of_format.empty() || of_format.back() < static_cast<std::int32_t>(tokens));
    }
    const auto formats = Formats(head);
    for (std::int32_t sink = 0; sink < std::min<int>(settings.sinks, static_cast<int>(tokens));
         ++sink) {
      EXPECT_TRUE(formats.contains(sink) && formats.at(sink) == 0) << "sink " << sink;
    }
    kept += static_cast<std::int64_t>(formats.size());
  }
  EXPECT_EQ(plan.kept_tokens, kept);
}

std::vector<BudgetSettings> AllSettings() {
  std::vector<BudgetSettings> all;
  for (const BudgetSplitInfo& info : AllBudgetSplits()) {
    for (const auto& shares :
         {std::vector<double>{1.0}, {0.25, 0.75}, {0.0, 1.0}, {0.1, 0.2, 0.7}}) {
      for (const int sinks : {0, 4, 20}) {
        BudgetSettings settings;
        settings.split = info.split;
        settings.sinks = sinks;
        settings.recent = 64;
        settings.format_shares = shares;
        all.push_back(settings);
      }
    }
  }
  return all;
}

TEST(PagePlanTest, BytesAreWhatIsKeptAndNeverExceedTheBudget) {
  for (BudgetSettings settings : AllSettings()) {
    const Sequence sequence(700, settings);
    for (const double ratio : {0.01, 0.1, 0.5, 0.75, 0.9, 0.99}) {
      settings.ratio = ratio;
      const PagePlan plan = Plan(settings, sequence);
      ASSERT_EQ(plan.outcome, PlanOutcome::kCompress);
      ExpectSound(settings, sequence, plan);
    }
  }
}

TEST(PagePlanTest, NothingIsLeftThatAPageWouldFitInto) {
  for (BudgetSettings settings : AllSettings()) {
    const Sequence sequence(700, settings);
    for (const double ratio : {0.05, 0.3, 0.6, 0.8}) {
      settings.ratio = ratio;
      const PagePlan plan = Plan(settings, sequence);
      ASSERT_FALSE(plan.guards_exceed_budget);
      EXPECT_LT(plan.budget_bytes - plan.bytes, 2 * kKept) << ratio;
    }
  }
}

TEST(PagePlanTest, ALargerBudgetKeepsAllThatASmallerOneKeepsAndInNoSmallerFormat) {
  for (BudgetSettings settings : AllSettings()) {
    const Sequence sequence(500, settings);
    PagePlan larger;
    for (const double ratio : {0.02, 0.2, 0.21, 0.5, 0.7, 0.95}) {
      settings.ratio = ratio;
      const PagePlan plan = Plan(settings, sequence);
      EXPECT_TRUE(larger.heads.empty() || plan.bytes <= larger.bytes);
      for (std::size_t h = 0; h < larger.heads.size(); ++h) {
        const auto before = Formats(larger.heads[h]);
        for (const auto& [index, format] : Formats(plan.heads[h])) {
          ASSERT_TRUE(before.contains(index)) << ratio;
          ASSERT_LE(before.at(index), format) << ratio;
        }
      }
      larger = plan;
    }
  }
}

TEST(PagePlanTest, UniformKeepsTheBestOfEveryHead) {
  const BudgetSettings settings = {.ratio = 0.5, .sinks = 0, .recent = 64};
  const Sequence sequence(640, settings);
  const PagePlan plan = Plan(settings, sequence);
  for (const HeadPlan& head : plan.heads) {
    std::vector<float> scores = sequence.scores(head.layer, head.head);
    const std::size_t kept = head.kept[0].size();
    EXPECT_NEAR(static_cast<double>(kept), 320 - 64 - 16, 16);
    std::sort(scores.rbegin(), scores.rend());
    for (const std::int32_t index : head.kept[0]) {
      const float score = sequence.scores(head.layer, head.head)[static_cast<std::size_t>(index)];
      EXPECT_GE(score, scores[kept - 1]);
    }
  }
}

TEST(PagePlanTest, BetterTokensAreInLargerFormatsInTheirShares) {
  const BudgetSettings settings = {
      .ratio = 0.6, .sinks = 0, .recent = 0, .format_shares = {0.25, 0.25, 0.5}};
  const Sequence sequence(1600, settings);
  for (const HeadPlan& head : Plan(settings, sequence).heads) {
    const std::vector<float>& scores = sequence.scores(head.layer, head.head);
    std::vector<float> lowest;
    std::vector<float> highest;
    for (const auto& of_format : head.kept) {
      const auto score = [&](std::int32_t i) { return scores[static_cast<std::size_t>(i)]; };
      const auto [low, high] = std::minmax_element(
          of_format.begin(), of_format.end(), [&](auto a, auto b) { return score(a) < score(b); });
      lowest.push_back(score(*low));
      highest.push_back(score(*high));
    }
    EXPECT_GE(lowest[0], highest[1]);
    EXPECT_GE(lowest[1], highest[2]);
    const double total =
        static_cast<double>(head.kept[0].size() + head.kept[1].size() + head.kept[2].size());
    EXPECT_NEAR(static_cast<double>(head.kept[0].size()) / total, 0.25, 0.02);
    EXPECT_NEAR(static_cast<double>(head.kept[2].size()) / total, 0.5, 0.03);
  }
}

TEST(PagePlanTest, WhatIsLeftWhenNothingIsDroppedImprovesFormats) {
  const BudgetSettings settings = {
      .ratio = 0.1, .sinks = 0, .recent = 0, .format_shares = {0.1, 0.9}};
  const Sequence sequence(640, settings);
  const PagePlan plan = Plan(settings, sequence);
  EXPECT_EQ(plan.dropped_tokens, 0);
  EXPECT_GT(plan.bytes, plan.budget_bytes - 2 * kKept);
  std::size_t in_first = 0;
  for (const HeadPlan& head : plan.heads) in_first += head.kept[0].size();
  EXPECT_GT(in_first, 640 * Sequence::kPlannedHeads / 2);
}

TEST(PagePlanTest, ShortPromptsStayAsTheyAre) {
  for (const BudgetSplitInfo& info : AllBudgetSplits()) {
    for (const int length : {0, 1, 2, 5, 20, 64, 255}) {
      for (const double ratio : {0.0, 0.5, 0.99}) {
        const BudgetSettings settings = {.ratio = ratio, .split = info.split, .recent = 64};
        const PagePlan plan = Plan(settings, Sequence(length, settings));
        EXPECT_EQ(plan.outcome, PlanOutcome::kTooShort) << length;
        EXPECT_TRUE(plan.heads.empty());
        EXPECT_EQ(plan.dropped_tokens, 0);
        EXPECT_EQ(plan.bytes, plan.dense_bytes);
        EXPECT_EQ(plan.bytes, static_cast<std::uint64_t>((length + 15) / 16) * kDense *
                                  Sequence::kPlannedHeads);
      }
    }
  }
}

TEST(PagePlanTest, PromptsThatFitAndARatioOfZeroStayAsTheyAre) {
  const BudgetSettings zero = {.ratio = 0, .recent = 64};
  EXPECT_EQ(Plan(zero, Sequence(1000, zero)).outcome, PlanOutcome::kFits);
  const BudgetSettings tokens = {.unit = BudgetUnit::kTokens, .amount = 1008, .recent = 64};
  EXPECT_EQ(Plan(tokens, Sequence(1000, tokens)).outcome, PlanOutcome::kFits);
  EXPECT_EQ(Plan(tokens, Sequence(1009, tokens)).outcome, PlanOutcome::kCompress);
}

TEST(PagePlanTest, WhereARatioLeavesLessThanSinksAndNewestTheseStay) {
  for (const BudgetSplitInfo& info : AllBudgetSplits()) {
    const BudgetSettings settings = {.ratio = 0.99, .split = info.split, .recent = 64};
    const Sequence sequence(300, settings);
    const PagePlan plan = Plan(settings, sequence);
    EXPECT_TRUE(plan.guards_exceed_budget);
    EXPECT_EQ(plan.kept_tokens, static_cast<std::int64_t>(16 * Sequence::kPlannedHeads));
    ExpectSound(settings, sequence, plan);
  }
}

TEST(PagePlanTest, ABudgetInTokensIsWhatAHeadKeepsWhateverTheLength) {
  for (const int length : {400, 1000, 4000}) {
    const BudgetSettings settings = {.unit = BudgetUnit::kTokens, .amount = 320, .recent = 64};
    const Sequence sequence(length, settings);
    const PagePlan plan = Plan(settings, sequence);
    ExpectSound(settings, sequence, plan);
    EXPECT_EQ(plan.budget_bytes, 20 * kDense * Sequence::kPlannedHeads);
    EXPECT_GT(plan.bytes, plan.budget_bytes - 2 * kKept);
  }
}

TEST(PagePlanTest, ABudgetInBytesHoldsTheWholeSequenceOrIsRefused) {
  BudgetSettings settings = {.unit = BudgetUnit::kBytes, .amount = 200000, .recent = 64};
  const Sequence sequence(1000, settings);
  const PagePlan plan = Plan(settings, sequence);
  ExpectSound(settings, sequence, plan);
  EXPECT_EQ(plan.budget_bytes, 195000U);
  const std::uint64_t least =
      5000 + Sequence::kPlannedHeads * (kKept + 5 * kDense);  // a page of sinks, five of newest
  settings.amount = least;
  EXPECT_FALSE(Plan(settings, sequence).guards_exceed_budget);
  settings.amount = least - 1;
  const Result<PagePlan> refused = PlanPages(settings, sequence.inputs);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(),
              testing::EndsWith("at least " + std::to_string(least) +
                                " bytes, not: " + std::to_string(least - 1)));
  settings.amount = 0;
  EXPECT_FALSE(PlanPages(settings, sequence.inputs).ok());
}

TEST(PagePlanTest, TheLeastBudgetInTokensIsKeptToo) {
  BudgetSettings settings = {.unit = BudgetUnit::kTokens, .sinks = 4, .recent = 64};
  settings.amount = static_cast<std::uint64_t>(LeastTokens(settings));
  for (const int length : {256, 257, 271, 1000}) {
    const Sequence sequence(length, settings);
    const PagePlan plan = Plan(settings, sequence);
    EXPECT_FALSE(plan.guards_exceed_budget);
    ExpectSound(settings, sequence, plan);
  }
}

TEST(PagePlanTest, SharesForOtherFormatsThanOfferedAreRefused) {
  BudgetSettings settings = {.ratio = 0.5};
  const Sequence sequence(600, settings);
  settings.format_shares = {0.5, 0.5};
  const Result<PagePlan> plan = PlanPages(settings, sequence.inputs);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.status().message(), testing::EndsWith("layer 0 is offered, not of: 2"));
}

TEST(PagePlanTest, HeadsOfAnEarlierRunMayHoldDifferentTokens) {
  const BudgetSettings settings = {
      .ratio = 0.8, .split = BudgetSplit::kAda, .sinks = 4, .recent = 64};
  Sequence sequence(1000, settings);
  std::vector<float> scores(37);
  std::vector<std::int32_t> positions(37);
  for (std::size_t i = 0; i < 37; ++i) {
    scores[i] = static_cast<float>(i % 7);
    positions[i] = static_cast<std::int32_t>(i * 9);
  }
  sequence.layer(0).heads[1] = {scores, positions};
  sequence.layer(1).heads[0] = {};
  const PagePlan plan = Plan(settings, sequence);
  EXPECT_EQ(plan.bytes, RecountBytes(settings, sequence, plan));
  EXPECT_LE(plan.bytes, plan.budget_bytes);
  EXPECT_TRUE(plan.heads[3].kept[0].empty());
  const auto& kept = plan.heads[1].kept[0];
  EXPECT_TRUE(kept.size() % 16 == 0 || kept.size() == 37) << kept.size();
  EXPECT_EQ(kept.front(), 0);  // position 0 is a sink, position 9 is none
}

TEST(PagePlanTest, GlobalWeighsLayersByTheirOwnSpread) {
  const BudgetSettings settings = {
      .ratio = 0.5, .split = BudgetSplit::kGlobal, .floor = 0, .sinks = 0, .recent = 0};
  Sequence sequence(640, settings);
  const PagePlan before = Plan(settings, sequence);
  std::vector<std::vector<float>> scaled;
  for (std::size_t head = 0; head < Sequence::kHeads; ++head) {
    scaled.push_back(sequence.scores(0, static_cast<int>(head)));
    for (float& score : scaled.back()) score = 1024 * score + 4096;
  }
  for (std::size_t head = 0; head < Sequence::kHeads; ++head) {
    sequence.layer(0).heads[head].scores = scaled[head];
  }
  const PagePlan after = Plan(settings, sequence);
  for (std::size_t h = 0; h < before.heads.size(); ++h) {
    EXPECT_NEAR(static_cast<double>(after.heads[h].kept[0].size()),
                static_cast<double>(before.heads[h].kept[0].size()), 16);
  }
}

}  // namespace
}  // namespace swiftkv
