// SPDX-License-Identifier: Apache-2.0
// Holds every eviction policy of the table to the contract of src/policy/eviction_policy.h.
#include "policy/eviction_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace swiftkv {
namespace {

// Owns what ScoreInputs points to, filled with random numbers for what the policy needs.
class TestInputs {
 public:
  TestInputs(const ScoreNeeds& needs, int kv_heads, int num_tokens, float scale) {
    constexpr int kHeadDim = 32;
    constexpr int kHiddenDim = 48;
    inputs.num_layers = 4;
    inputs.layer = 1;
    inputs.kv_heads = kv_heads;
    inputs.gqa = 3;
    inputs.head_dim = kHeadDim;
    inputs.num_tokens = num_tokens;
    inputs.attention_scale = 0.25F;
    for (int i = 0; i < kHeadDim / 2; ++i) {
      frequencies_.push_back(std::pow(10000.0F, -2.0F * static_cast<float>(i) / kHeadDim));
    }
    inputs.rope.frequencies = frequencies_;
    inputs.seed = 5;
    const auto tokens = static_cast<std::size_t>(num_tokens);
    const auto heads = static_cast<std::size_t>(kv_heads);
    const std::size_t query_heads = heads * 3;
    std::int32_t position = 0;
    for (std::size_t t = 0; t < tokens; ++t) {  // with gaps, as after an earlier run
      position += 1 + static_cast<std::int32_t>(random_() % 3);
      positions_.push_back(position - 1);
    }
    inputs.positions = positions_;
    inputs.next_position = position + 2;
    if (needs.keys) inputs.keys = Fill(&keys_, heads * tokens * kHeadDim, scale);
    if (needs.value_norms) inputs.value_norms = Fill(&value_norms_, heads * tokens, scale);
    if (needs.query_statistics) {
      inputs.query_mean = Fill(&query_mean_, query_heads * kHeadDim, scale);
      inputs.query_covariance = Fill(&query_covariance_, query_heads * kHeadDim * kHeadDim, scale);
    }
    if (needs.probabilities) {
      inputs.probabilities = Fill(&probabilities_, heads * tokens, 1);
      inputs.observed_queries = std::min(num_tokens, 20);
    }
    if (needs.hidden_states) {
      inputs.hidden_states = Fill(&hidden_states_, tokens * kHiddenDim, scale);
      inputs.hidden_dim = kHiddenDim;
    }
  }

  std::size_t num_scores() const {
    return static_cast<std::size_t>(inputs.kv_heads) * static_cast<std::size_t>(inputs.num_tokens);
  }

  ScoreInputs inputs;

 private:
  std::span<const float> Fill(std::vector<float>* values, std::size_t count, float scale) {
    std::uniform_real_distribution<float> uniform(0, 1);
    for (std::size_t i = 0; i < count; ++i) values->push_back(scale * uniform(random_));
    return *values;
  }

  std::mt19937 random_{3};
  std::vector<std::int32_t> positions_;
  std::vector<float> frequencies_;
  std::vector<float> keys_, value_norms_, query_mean_, query_covariance_, probabilities_,
      hidden_states_;
};

class EvictionPolicyConformanceTest : public testing::TestWithParam<const EvictionPolicy*> {
 protected:
  std::vector<float> Score(const TestInputs& test) const {
    std::vector<float> scores(test.num_scores(), std::numeric_limits<float>::quiet_NaN());
    GetParam()->Score(test.inputs, {}, scores);
    return scores;
  }
};

INSTANTIATE_TEST_SUITE_P(Policies, EvictionPolicyConformanceTest, testing::ValuesIn(AllPolicies()),
                         [](const auto& instance) {
                           return std::string(instance.param->info().name);
                         });

TEST_P(EvictionPolicyConformanceTest, EveryScoreIsWrittenAndFinite) {
  for (float scale : {0.0F, 1.0F, 65504.0F}) {
    for (int tokens : {0, 1, 2, 16, 17, 300}) {
      for (int heads : {1, 3}) {
        for (float score : Score(TestInputs(GetParam()->info().needs, heads, tokens, scale))) {
          ASSERT_TRUE(std::isfinite(score)) << tokens << " tokens, scale " << scale;
        }
      }
    }
  }
}

TEST_P(EvictionPolicyConformanceTest, ScoresDependOnNothingButTheInputs) {
  const TestInputs test(GetParam()->info().needs, 2, 100, 1);
  const std::vector<float> first = Score(test);
  Score(TestInputs(GetParam()->info().needs, 3, 50, 2));
  EXPECT_EQ(Score(test), first);
}

TEST_P(EvictionPolicyConformanceTest, NoParametersAreRequiredAndUnknownOnesAreNamed) {
  EXPECT_TRUE(GetParam()->Validate({}).ok());
  const Status status = GetParam()->Validate({{"no_such_parameter", 1}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr(GetParam()->info().name));
  EXPECT_THAT(status.message(), testing::EndsWith("not: no_such_parameter"));
}

TEST_P(EvictionPolicyConformanceTest, TheRowSaysWhatHelpAndDocsNeed) {
  const PolicyInfo& info = GetParam()->info();
  EXPECT_GT(std::string(info.description).size(), 10U);
  EXPECT_GT(std::string(info.paper).size(), 5U);
  EXPECT_EQ(*FindPolicy(info.name), GetParam());
}

TEST(EvictionPolicyTableTest, NamesAreUniqueAndAnUnknownOneIsAnsweredWithTheList) {
  std::set<std::string> names;
  for (const EvictionPolicy* policy : AllPolicies()) names.insert(policy->info().name);
  EXPECT_EQ(names.size(), AllPolicies().size());
  const auto policy = FindPolicy("oracle");
  ASSERT_FALSE(policy.ok());
  EXPECT_THAT(policy.status().message(), testing::HasSubstr("sink_recent"));
  EXPECT_THAT(policy.status().message(), testing::EndsWith("not: oracle"));
}

}  // namespace
}  // namespace swiftkv
