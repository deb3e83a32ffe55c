// SPDX-License-Identifier: Apache-2.0
// Checks who is granted the next page under each way of splitting.
#include "policy/grant_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace swiftkv {
namespace {

// Heads with values that fall, [layers][heads][pages].
class Heads {
 public:
  void Add(int layer, std::vector<float> pages) {
    layers_.push_back(layer);
    pages_.push_back(std::move(pages));
  }

  std::vector<HeadValues> values() const {
    std::vector<HeadValues> values;
    for (std::size_t i = 0; i < pages_.size(); ++i) values.push_back({layers_[i], pages_[i]});
    return values;
  }

 private:
  std::vector<int> layers_;
  std::vector<std::vector<float>> pages_;
};

Heads RandomHeads(int layers, int heads, int pages) {
  std::mt19937 random(9);
  std::exponential_distribution<float> draw;
  Heads all;
  for (int layer = 0; layer < layers; ++layer) {
    for (int head = 0; head < heads; ++head) {
      std::vector<float> values(static_cast<std::size_t>(pages));
      for (float& value : values) value = draw(random) * static_cast<float>(1 + head);
      std::sort(values.rbegin(), values.rend());
      all.Add(layer, values);
    }
  }
  return all;
}

std::vector<int> Order(const BudgetSettings& settings, const Heads& heads) {
  return GrantOrder(settings, heads.values());
}

// Pages of each head among the first `count` of the order.
std::vector<int> Counts(const std::vector<int>& order, std::size_t count, std::size_t heads) {
  std::vector<int> counts(heads);
  for (std::size_t i = 0; i < count; ++i) ++counts[static_cast<std::size_t>(order[i])];
  return counts;
}

TEST(GrantOrderTest, UniformGoesRoundByLayersThenHeads) {
  Heads heads;
  heads.Add(0, {1, 1});
  heads.Add(0, {9, 8});
  heads.Add(1, {5, 4});
  heads.Add(1, {7, 7});
  EXPECT_EQ(Order({.split = BudgetSplit::kUniform}, heads),
            (std::vector<int>{0, 2, 1, 3, 0, 2, 1, 3}));
}

TEST(GrantOrderTest, UniformServesHeadsThatHaveFewerPages) {
  Heads heads;
  heads.Add(0, {1, 1, 1});
  heads.Add(0, {2});
  heads.Add(1, {});
  EXPECT_EQ(Order({.split = BudgetSplit::kUniform}, heads), (std::vector<int>{0, 1, 0, 0}));
}

TEST(GrantOrderTest, AdaTakesTheBestOfALayerAndLayersInTurn) {
  Heads heads;
  heads.Add(0, {1, 0.5F});
  heads.Add(0, {9, 8});
  heads.Add(1, {0.3F, 0.1F});
  heads.Add(1, {0.2F, 0.2F});
  EXPECT_EQ(Order({.split = BudgetSplit::kAda, .floor = 0}, heads),
            (std::vector<int>{1, 2, 1, 3, 0, 3, 0, 2}));
}

TEST(GrantOrderTest, GlobalTakesTheBestOfAll) {
  Heads heads;
  heads.Add(0, {1, 0.5F});
  heads.Add(0, {9, 8});
  heads.Add(1, {0.3F, 0.1F});
  heads.Add(1, {2, 0.2F});
  EXPECT_EQ(Order({.split = BudgetSplit::kGlobal, .floor = 0}, heads),
            (std::vector<int>{1, 1, 3, 0, 0, 2, 3, 2}));
}

TEST(GrantOrderTest, EveryPrefixKeepsTheFloor) {
  constexpr int kHeads = 4;
  const Heads heads = RandomHeads(3, kHeads, 50);
  for (const double floor : {0.0, 0.2, 0.5, 1.0}) {
    const std::vector<int> order = Order({.split = BudgetSplit::kGlobal, .floor = floor}, heads);
    for (std::size_t n = 0; n <= order.size(); ++n) {
      const std::vector<int> counts = Counts(order, n, 12);
      const int least = *std::min_element(counts.begin(), counts.end());
      ASSERT_GE(least, static_cast<int>(floor * static_cast<double>(n) / 12)) << n;
    }
  }
}

TEST(GrantOrderTest, AdaGivesEveryLayerTheSame) {
  const Heads heads = RandomHeads(5, 3, 40);
  const std::vector<int> order = Order({.split = BudgetSplit::kAda}, heads);
  for (std::size_t n = 0; n <= order.size(); n += 5) {
    const std::vector<int> counts = Counts(order, n, 15);
    for (std::size_t layer = 0; layer < 5; ++layer) {
      ASSERT_EQ(counts[3 * layer] + counts[3 * layer + 1] + counts[3 * layer + 2],
                static_cast<int>(n / 5));
    }
  }
}

TEST(GrantOrderTest, WithoutAFloorAdaIsATopKOverTheHeadsOfALayer) {
  const Heads heads = RandomHeads(1, 3, 60);
  const std::vector<int> order = Order({.split = BudgetSplit::kAda, .floor = 0}, heads);
  const std::vector<HeadValues> values = heads.values();
  std::vector<std::pair<float, int>> all;
  for (int head = 0; head < 3; ++head) {
    for (const float value : values[static_cast<std::size_t>(head)].pages) {
      all.emplace_back(-value, head);
    }
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(order[i], all[i].second) << i;
}

TEST(GrantOrderTest, PyramidFallsLinearlyWithTheLayer) {
  const Heads heads = RandomHeads(5, 2, 1000);
  const std::vector<int> order = Order({.split = BudgetSplit::kPyramid, .steepness = 10}, heads);
  const std::vector<int> counts = Counts(order, 10 * 100, 10);
  for (std::size_t layer = 0; layer < 5; ++layer) {
    const double weight = 1.9 - 1.8 * static_cast<double>(layer) / 4;
    EXPECT_NEAR(counts[2 * layer], 100 * weight, 1.5) << layer;
    EXPECT_NEAR(counts[2 * layer], counts[2 * layer + 1], 1) << layer;
  }
}

TEST(GrantOrderTest, WhatFullLayersLeaveGoesToTheOthers) {
  const Heads heads = RandomHeads(2, 1, 10);
  const std::vector<int> order = Order({.split = BudgetSplit::kPyramid, .steepness = 20}, heads);
  EXPECT_EQ(Counts(order, 15, 2), (std::vector<int>{10, 5}));
}

}  // namespace
}  // namespace swiftkv
