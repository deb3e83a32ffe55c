// SPDX-License-Identifier: Apache-2.0
// Checks sampler options against the ranges that are stated here and nowhere else.
#include "swiftkv/sampler_options.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status_macros.h"
#include "base/utf8.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMaxBreakers = 64;
constexpr std::size_t kMaxBreakerBytes = 40;  // the library cuts longer ones
constexpr float kMaxBias = 100.0F;

std::string Text(double value) {
  std::string text = std::to_string(value);
  while (text.find('.') != std::string::npos && (text.back() == '0' || text.back() == '.')) {
    const bool was_point = text.back() == '.';
    text.pop_back();
    if (was_point) break;
  }
  return text;
}

struct Range {
  const char* name;
  double value;
  double min;
  double max;
};

// Written so that NaN is out of every range.
Status CheckRange(const Range& range) {
  if (range.value >= range.min && range.value <= range.max) return Status::Ok();
  return Status::InvalidArgument(std::string(range.name) + " must be from " + Text(range.min) +
                                 " to " + Text(range.max) + ", not " + Text(range.value));
}

Status CheckBias(const LogitBias& bias, int vocabulary_size) {
  if (bias.token < 0 || bias.token >= vocabulary_size) {
    return Status::InvalidArgument("logit_bias takes token ids from 0 to " +
                                   std::to_string(vocabulary_size - 1) + ", not " +
                                   std::to_string(bias.token));
  }
  const bool forbids = bias.bias == -std::numeric_limits<float>::infinity();
  if (!forbids && !(std::abs(bias.bias) <= kMaxBias)) {
    return Status::InvalidArgument(
        "logit_bias takes values from -100 to 100, or -infinity, for token " +
        std::to_string(bias.token) + ", not " + Text(bias.bias));
  }
  return Status::Ok();
}

Status CheckTexts(const SamplerOptions& options) {
  if (options.dry_sequence_breakers.size() > kMaxBreakers) {
    return Status::InvalidArgument("dry_sequence_breakers takes at most " +
                                   std::to_string(kMaxBreakers) + " texts, not " +
                                   std::to_string(options.dry_sequence_breakers.size()));
  }
  for (const std::string& breaker : options.dry_sequence_breakers) {
    if (breaker.empty() || breaker.size() > kMaxBreakerBytes || !IsValidUtf8(breaker)) {
      return Status::InvalidArgument("dry_sequence_breakers takes UTF-8 texts of 1 to " +
                                     std::to_string(kMaxBreakerBytes) + " bytes, not one of " +
                                     std::to_string(breaker.size()));
    }
  }
  if (options.grammar.size() > kMaxGrammarBytes) {
    return Status::InvalidArgument("a grammar may have at most " +
                                   std::to_string(kMaxGrammarBytes) + " bytes, not " +
                                   std::to_string(options.grammar.size()));
  }
  return Status::Ok();
}

Status CheckTriggers(const GrammarTriggers& triggers) {
  const std::size_t count = triggers.words.size() + triggers.patterns.size();
  if (count == 0 || count > kMaxGrammarTriggers) {
    return Status::InvalidArgument("grammar_triggers takes 1 to " +
                                   std::to_string(kMaxGrammarTriggers) +
                                   " words and patterns, not " + std::to_string(count));
  }
  std::vector<std::string> texts = triggers.words;
  texts.insert(texts.end(), triggers.patterns.begin(), triggers.patterns.end());
  texts.insert(texts.end(), triggers.reasoning_ends.begin(), triggers.reasoning_ends.end());
  for (const std::string& text : texts) {
    if (text.empty() || text.size() > kMaxTriggerBytes) {
      return Status::InvalidArgument("grammar_triggers takes texts of 1 to " +
                                     std::to_string(kMaxTriggerBytes) + " bytes, not one of " +
                                     std::to_string(text.size()));
    }
  }
  if (triggers.reasoning_start.size() > kMaxTriggerBytes) {
    return Status::InvalidArgument("reasoning_start takes " + std::to_string(kMaxTriggerBytes) +
                                   " bytes, not " +
                                   std::to_string(triggers.reasoning_start.size()));
  }
  return Status::Ok();
}

}  // namespace

Status ValidateSamplerOptions(const SamplerOptions& options, int vocabulary_size) {
  constexpr double kMaxInt = std::numeric_limits<std::int32_t>::max();
  const Range ranges[] = {
      {"penalty_last_n", static_cast<double>(options.penalty_last_n), 0, kMaxPenaltyTokens},
      {"repeat_penalty", options.repeat_penalty, 0.01, 100},
      {"frequency_penalty", options.frequency_penalty, -100, 100},
      {"presence_penalty", options.presence_penalty, -100, 100},
      {"dry_multiplier", options.dry_multiplier, 0, 100},
      {"dry_base", options.dry_base, 1, 100},
      {"dry_allowed_length", static_cast<double>(options.dry_allowed_length), 0, kMaxPenaltyTokens},
      {"dry_last_n", static_cast<double>(options.dry_last_n), 0, kMaxPenaltyTokens},
      {"mirostat", static_cast<double>(options.mirostat), 0, 2},
      {"mirostat_tau", options.mirostat_tau, 0, 100},
      {"mirostat_eta", options.mirostat_eta, 0, 10},
      {"top_n_sigma", options.top_n_sigma, -100, 100},
      {"top_k", static_cast<double>(options.top_k), 0, kMaxInt},
      {"typical_p", options.typical_p, 0, 1},
      {"top_p", options.top_p, 0, 1},
      {"min_p", options.min_p, 0, 1},
      {"xtc_probability", options.xtc_probability, 0, 1},
      {"xtc_threshold", options.xtc_threshold, 0, 1},
      {"temperature", options.temperature, 0, 100},
      {"dynatemp_range", options.dynatemp_range, 0, 100},
      {"dynatemp_exponent", options.dynatemp_exponent, 0, 100},
  };
  for (const Range& range : ranges) SKV_RETURN_IF_ERROR(CheckRange(range));
  if (options.logit_bias.size() > kMaxLogitBiases) {
    return Status::InvalidArgument("logit_bias takes at most " + std::to_string(kMaxLogitBiases) +
                                   " tokens, not " + std::to_string(options.logit_bias.size()));
  }
  for (const LogitBias& bias : options.logit_bias) {
    SKV_RETURN_IF_ERROR(CheckBias(bias, vocabulary_size));
  }
  if (options.grammar_triggers) SKV_RETURN_IF_ERROR(CheckTriggers(*options.grammar_triggers));
  return CheckTexts(options);
}

}  // namespace swiftkv
