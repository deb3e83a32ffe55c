// SPDX-License-Identifier: Apache-2.0
// Tests that the preselection holds exactly the k best and the edited tokens, in a fixed order.
#include "model/logit_preselection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "llama.h"

namespace swiftkv {
namespace {

TEST(LogitPreselectionTest, HoldsTheBestAndTheEditedOnesAsASortWouldGiveThem) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    // Few distinct values, so that equal logits are common.
    const std::size_t size = 1 + random() % 400;
    std::vector<float> logits(size);
    for (float& logit : logits) logit = static_cast<float>(random() % 40) - 20.0F;
    if (round % 5 == 0) logits[random() % size] = -std::numeric_limits<float>::infinity();
    LogitPreselection preselection(static_cast<int>(size));
    std::vector<llama_token_data> candidates;
    for (int draw = 0; draw < 3; ++draw) {
      const std::size_t k = random() % (size + 5);
      std::set<TokenId> edited;
      preselection.Start();
      for (unsigned i = random() % 8; i > 0; --i) {
        const auto token = static_cast<TokenId>(random() % size);
        preselection.AddEdited(token);
        edited.insert(token);
      }
      EXPECT_EQ(preselection.edited_count(), edited.size());
      preselection.Scan(logits);
      preselection.Select(logits, k, &candidates);

      std::vector<TokenId> order;
      for (std::size_t i = 0; i < size; ++i) order.push_back(static_cast<TokenId>(i));
      const auto better = [&](TokenId a, TokenId b) {
        return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
      };
      std::stable_sort(order.begin(), order.end(), better);
      std::vector<TokenId> expected;
      std::size_t others = 0;
      for (const TokenId token : order) {
        if (edited.contains(token) || others++ < k) expected.push_back(token);
      }
      std::vector<TokenId> tokens;
      for (const llama_token_data& candidate : candidates) {
        tokens.push_back(candidate.id);
        EXPECT_EQ(candidate.logit, logits[static_cast<std::size_t>(candidate.id)]);
      }
      ASSERT_EQ(tokens, expected) << "size " << size << ", k " << k;
    }
  }
}

LogitScan Scan(const std::vector<float>& logits) {
  return LogitPreselection(static_cast<int>(logits.size())).Scan(logits);
}

TEST(LogitPreselectionTest, ScanFindsTheBestAndWhatIsNoNumber) {
  for (const std::size_t size : {1U, 15U, 63U, 64U, 65U, 1000U}) {
    std::vector<float> logits(size, -3.0F);
    logits[size / 2] = 5.0F;
    EXPECT_TRUE(Scan(logits).finite);
    EXPECT_EQ(Scan(logits).best, 5.0F);
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      for (std::size_t at = 0; at < size; ++at) {
        std::vector<float> spoiled = logits;
        spoiled[at] = bad;
        ASSERT_FALSE(Scan(spoiled).finite) << at;
      }
    }
    logits.assign(size, -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(Scan(logits).finite);
    EXPECT_EQ(Scan(logits).best, -std::numeric_limits<float>::infinity());
  }
}

}  // namespace
}  // namespace swiftkv
