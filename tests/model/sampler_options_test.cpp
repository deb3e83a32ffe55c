// SPDX-License-Identifier: Apache-2.0
// Tests that options out of range are refused by name and value.
#include "swiftkv/sampler_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace swiftkv {
namespace {

using ::testing::HasSubstr;

constexpr int kVocabulary = 100;

struct BadOption {
  const char* name;
  std::function<void(SamplerOptions*)> spoil;
  const char* value;  // as the message ends
};

TEST(SamplerOptionsTest, DefaultsAndLimitsAreAccepted) {
  EXPECT_TRUE(ValidateSamplerOptions({}, kVocabulary).ok());
  SamplerOptions options;
  options.temperature = 0.0F;
  options.top_p = 0.0F;
  options.top_k = 0;
  options.logit_bias.assign(kMaxLogitBiases, {99, -std::numeric_limits<float>::infinity()});
  options.grammar.assign(kMaxGrammarBytes, '#');
  EXPECT_TRUE(ValidateSamplerOptions(options, kVocabulary).ok());
}

TEST(SamplerOptionsTest, EachBadValueIsRefusedByNameAndValue) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<BadOption> bad = {
      {"temperature", [=](auto* o) { o->temperature = -0.5F; }, "not -0.5"},
      {"temperature", [=](auto* o) { o->temperature = nan; }, "not nan"},
      {"temperature", [=](auto* o) { o->temperature = infinity; }, "not inf"},
      {"top_k", [=](auto* o) { o->top_k = -1; }, "not -1"},
      {"top_p", [=](auto* o) { o->top_p = 1.5F; }, "not 1.5"},
      {"top_p", [=](auto* o) { o->top_p = nan; }, "not nan"},
      {"min_p", [=](auto* o) { o->min_p = -1.0F; }, "not -1"},
      {"typical_p", [=](auto* o) { o->typical_p = 2.0F; }, "not 2"},
      {"top_n_sigma", [=](auto* o) { o->top_n_sigma = nan; }, "not nan"},
      {"repeat_penalty", [=](auto* o) { o->repeat_penalty = 0.0F; }, "not 0"},
      {"frequency_penalty", [=](auto* o) { o->frequency_penalty = infinity; }, "not inf"},
      {"presence_penalty", [=](auto* o) { o->presence_penalty = nan; }, "not nan"},
      {"penalty_last_n", [=](auto* o) { o->penalty_last_n = -1; }, "not -1"},
      {"penalty_last_n", [=](auto* o) { o->penalty_last_n = 1 << 30; }, "not 1073741824"},
      {"dry_multiplier", [=](auto* o) { o->dry_multiplier = -1.0F; }, "not -1"},
      {"dry_base", [=](auto* o) { o->dry_base = 0.5F; }, "not 0.5"},
      {"dry_allowed_length", [=](auto* o) { o->dry_allowed_length = -2; }, "not -2"},
      {"dry_last_n", [=](auto* o) { o->dry_last_n = -1; }, "not -1"},
      {"dry_sequence_breakers", [=](auto* o) { o->dry_sequence_breakers = {""}; }, "of 0"},
      {"dry_sequence_breakers", [=](auto* o) { o->dry_sequence_breakers.resize(65, "x"); },
       "not 65"},
      {"xtc_probability", [=](auto* o) { o->xtc_probability = 1.1F; }, "not 1.1"},
      {"xtc_threshold", [=](auto* o) { o->xtc_threshold = nan; }, "not nan"},
      {"mirostat", [=](auto* o) { o->mirostat = 3; }, "not 3"},
      {"mirostat_tau", [=](auto* o) { o->mirostat_tau = -1.0F; }, "not -1"},
      {"mirostat_eta", [=](auto* o) { o->mirostat_eta = nan; }, "not nan"},
      {"dynatemp_range", [=](auto* o) { o->dynatemp_range = -1.0F; }, "not -1"},
      {"dynatemp_exponent", [=](auto* o) { o->dynatemp_exponent = nan; }, "not nan"},
      {"logit_bias",
       [=](auto* o) {
         o->logit_bias = {{-1, 1.0F}};
       },
       "not -1"},
      {"logit_bias",
       [=](auto* o) {
         o->logit_bias = {{kVocabulary, 1.0F}};
       },
       "not 100"},
      {"logit_bias",
       [=](auto* o) {
         o->logit_bias = {{5, nan}};
       },
       "not nan"},
      {"logit_bias",
       [=](auto* o) {
         o->logit_bias = {{5, 1e9F}};
       },
       "not 1000000000"},
      {"logit_bias",
       [=](auto* o) {
         o->logit_bias = {{5, infinity}};
       },
       "not inf"},
      {"logit_bias", [=](auto* o) { o->logit_bias.resize(10000); }, "not 10000"},
      {"grammar", [=](auto* o) { o->grammar.resize(kMaxGrammarBytes + 1, '#'); }, "not 1048577"},
  };
  for (const BadOption& row : bad) {
    SamplerOptions options;
    row.spoil(&options);
    const Status status = ValidateSamplerOptions(options, kVocabulary);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << row.name;
    EXPECT_THAT(status.message(), HasSubstr(row.name));
    EXPECT_THAT(status.message(), ::testing::EndsWith(row.value)) << row.name;
  }
}

}  // namespace
}  // namespace swiftkv
