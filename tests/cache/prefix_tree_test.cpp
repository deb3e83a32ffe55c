// SPDX-License-Identifier: Apache-2.0
// Tests the nodes of the prefix index, the order of eviction and what was evicted, each by itself.
#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cache/evicted_keys.h"
#include "cache/prefix_eviction.h"
#include "cache/prefix_trial.h"

namespace swiftkv {
namespace {

// Formats are told apart by address alone.
const StoredFormat kOneFormat;
const StoredFormat kOtherFormat;

class PrefixTreeTest : public ::testing::Test {
 protected:
  explicit PrefixTreeTest(std::uint64_t limit = 8 << 20) : budget_(limit), ledger_(&budget_) {
    EXPECT_TRUE(tree_.Open(2, &budget_, &ledger_).ok());
    EXPECT_TRUE(queue_.Open(&tree_, &budget_).ok());
  }

  NodeId Add(NodeId parent, const Tokens& tokens, Quality grade = Quality::kExact) {
    return tree_.TryAdd({ChildKey(tree_[parent].key, tokens), tokens, &kOneFormat, grade}, parent);
  }

  MemoryBudget budget_;
  HeapLedger ledger_;
  PrefixTree tree_;
  EvictionQueue queue_;
};

TEST_F(PrefixTreeTest, ANodeIsFoundByKeyFormatGradeAndTokensTogether) {
  const NodeId root = tree_.TryAdd({RootKey({}), {}, &kOneFormat, Quality::kExact}, kNoNode);
  const Tokens tokens = Prompt(1, kPageTokens);
  const NodeId exact = Add(root, tokens);
  const NodeId near = Add(root, tokens, Quality::kNear);
  const BlockKey key = tree_[exact].key;
  EXPECT_EQ(tree_.Find({key, tokens, &kOneFormat, Quality::kExact}), exact);
  EXPECT_EQ(tree_.Find({key, tokens, &kOneFormat, Quality::kNear}), near);
  EXPECT_EQ(tree_.Find({key, tokens, &kOneFormat, Quality::kAny}), kNoNode);
  EXPECT_EQ(tree_.Find({key, tokens, &kOtherFormat, Quality::kExact}), kNoNode);
  Tokens colliding = tokens;  // as if another block had the same key
  colliding[7] += 1;
  EXPECT_EQ(tree_.Find({key, colliding, &kOneFormat, Quality::kExact}), kNoNode);
  EXPECT_EQ(tree_[near].block, 0);
  EXPECT_EQ(tree_[root].block, -1);
  tree_.CheckInvariants();
}

TEST_F(PrefixTreeTest, RandomGrowthAndRemovalKeepsLinksAndGivesMemoryBack) {
  const std::uint64_t before = budget_.used_bytes();
  std::mt19937 random(1);
  std::vector<NodeId> nodes = {
      tree_.TryAdd({RootKey({}), {}, &kOneFormat, Quality::kExact}, kNoNode)};
  for (int i = 0; i < 6000; ++i) {
    const std::size_t at = random() % nodes.size();
    if (i < 4000 ? random() % 4 != 0 : random() % 4 == 0) {
      Tokens tokens = Prompt(static_cast<std::uint32_t>(i) + 10, kPageTokens);
      nodes.push_back(Add(nodes[at], tokens));
      ASSERT_NE(nodes.back(), kNoNode);
    } else if (tree_[nodes[at]].first_child == kNoNode && nodes.size() > 1) {
      tree_.Remove(nodes[at]);
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (i % 500 == 0) tree_.CheckInvariants();
  }
  while (!nodes.empty()) {
    for (std::size_t at = nodes.size(); at-- > 0;) {
      if (tree_[nodes[at]].first_child != kNoNode) continue;
      tree_.Remove(nodes[at]);
      nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  tree_.CheckInvariants();
  EXPECT_EQ(budget_.used_bytes(), before);
}

TEST_F(PrefixTreeTest, TheQueueGivesTheLowestAgeFirstThroughAnyChanges) {
  const NodeId root = tree_.TryAdd({RootKey({}), {}, &kOneFormat, Quality::kExact}, kNoNode);
  std::map<NodeId, double> ages;
  std::mt19937 random(2);
  std::vector<NodeId> nodes;
  for (std::uint32_t i = 0; i < 300; ++i) nodes.push_back(Add(root, Prompt(i, kPageTokens)));
  ASSERT_TRUE(queue_.TryGrow(tree_.num_nodes()));
  for (int i = 0; i < 5000; ++i) {
    const NodeId id = nodes[random() % nodes.size()];
    if (random() % 3 == 0) {
      queue_.Take(id);
      ages.erase(id);
    } else {
      ages[id] = static_cast<double>(random() % 1000);
      queue_.Put(id, ages[id]);
    }
    ASSERT_EQ(queue_.size(), ages.size());
    if (ages.empty()) continue;
    double lowest = 1e9;
    for (const auto& [node, age] : ages) lowest = std::min(lowest, age);
    ASSERT_EQ(queue_.age(queue_.first()), lowest);
    if (i % 100 == 0) queue_.CheckInvariants();
  }
}

TEST_F(PrefixTreeTest, AFullBudgetRefusesANodeAndChangesNothing) {
  const NodeId root = tree_.TryAdd({RootKey({}), {}, &kOneFormat, Quality::kExact}, kNoNode);
  ASSERT_TRUE(budget_.TryCharge(budget_.left_bytes()));
  std::uint32_t nodes = tree_.num_nodes();
  NodeId last = root;
  for (std::uint32_t i = 0; last != kNoNode; ++i) {
    ASSERT_LT(i, 1000U);
    nodes = tree_.num_nodes();
    last = Add(root, Prompt(i, kPageTokens));
  }
  EXPECT_EQ(tree_.num_nodes(), nodes);
  EXPECT_EQ(budget_.left_bytes(), 0U);
  tree_.CheckInvariants();
}

TEST(EvictedKeysTest, ItTellsWhatWasAddedAndTakesAPartOfTheBoundOnly) {
  MemoryBudget budget(8 << 20);
  HeapLedger ledger(&budget);
  EvictedKeys keys(budget.limit_bytes(), &ledger);
  const BlockKey first = ChildKey({}, Prompt(1, kPageTokens));
  EXPECT_FALSE(keys.Contains(first));
  EXPECT_FALSE(keys.Clear());
  keys.Add(first);
  EXPECT_TRUE(keys.Contains(first));
  EXPECT_FALSE(keys.Contains(ChildKey({}, Prompt(2, kPageTokens))));
  for (std::uint32_t i = 10; i < 5000; ++i) keys.Add(ChildKey({}, Prompt(i, kPageTokens)));
  EXPECT_TRUE(keys.Contains(ChildKey({}, Prompt(4999, kPageTokens))));
  EXPECT_LE(keys.heap_bytes(), budget.limit_bytes() / 2048);
  EXPECT_TRUE(keys.Clear());
  EXPECT_EQ(budget.used_bytes(), 0U);
}

}  // namespace
}  // namespace swiftkv
