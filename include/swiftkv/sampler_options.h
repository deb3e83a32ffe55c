// SPDX-License-Identifier: Apache-2.0
// Describes how the next token is drawn from a model's logits, and what is told of a draw. Layer:
// model.
//
// Plain data; every field has a value that turns its step off. Steps run in the order in which they
// are listed here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "swiftkv/status.h"

namespace swiftkv {

// A token and the natural logarithm of its probability before any sampling step.
struct TokenLogprob {
  std::int32_t token = -1;
  float logprob = 0.0F;  // at most 0

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct LogitBias {
  std::int32_t token = 0;
  float bias = 0.0F;  // added to the logit; in [-100, 100], or -infinity to forbid the token
};

inline constexpr int kMaxLogitBiases = 1024;
inline constexpr int kMaxPenaltyTokens = 65536;
inline constexpr std::size_t kMaxGrammarBytes = 1U << 20;

inline constexpr std::size_t kMaxGrammarTriggers = 64;
inline constexpr std::size_t kMaxTriggerBytes = 1024;  // of one word, pattern or reasoning marker

// What makes a grammar begin to hold in the middle of a reply.
struct GrammarTriggers {
  // The grammar describes the reply from the first place where one of these words is complete, the
  // word included.
  std::vector<std::string> words = {};
  // Likewise regular expressions (ECMAScript): from their first group, or from where they match.
  std::vector<std::string> patterns = {};

  // No word triggers inside reasoning, which stands between these texts.
  std::string reasoning_start = {};  // empty: there is none
  std::vector<std::string> reasoning_ends = {};
  bool in_reasoning = false;  // the prompt has opened it
};

struct SamplerOptions {
  std::optional<std::uint64_t> seed;  // none draws one from the system; Sampler::seed() tells which

  std::string grammar;  // GBNF text with a rule `root`; empty allows everything
  std::optional<GrammarTriggers> grammar_triggers = {};  // none: it holds from the first token
  // The end of the prompt where the grammar describes it too; without triggers.
  std::string grammar_prefix = {};
  std::vector<LogitBias> logit_bias;
  bool ignore_eos = false;  // never sample a token that ends the reply

  // Repetition, over the last `penalty_last_n` tokens of prompt and reply. 0 turns all three off.
  int penalty_last_n = 64;
  float repeat_penalty =
      1.0F;  // divides positive logits of seen tokens, multiplies negative ones; 1 is off
  float frequency_penalty = 0.0F;  // subtracted once for every time a token was seen
  float presence_penalty = 0.0F;   // subtracted once from every seen token

  // DRY: penalises the token that would prolong a repeated sequence by multiplier * base^(length -
  // allowed).
  float dry_multiplier = 0.0F;  // 0 is off
  float dry_base = 1.75F;
  int dry_allowed_length = 2;
  int dry_last_n = 4096;  // tokens of prompt and reply that are searched
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};

  // Mirostat (arXiv 2007.14966) replaces every truncation below: 0 is off, 1 and 2 are its
  // versions.
  int mirostat = 0;
  float mirostat_tau = 5.0F;  // target surprise, in bits
  float mirostat_eta = 0.1F;  // learning rate

  float top_n_sigma = -1.0F;  // keeps logits within n standard deviations of the best; <= 0 is off
  int top_k = 40;             // keeps the k best; 0 is off
  float typical_p = 1.0F;     // locally typical sampling (arXiv 2202.00666); 1 is off
  float top_p = 0.95F;        // keeps the smallest set of at least this probability; 1 is off
  float min_p =
      0.05F;  // keeps tokens of at least this fraction of the best one's probability; 0 is off
  float xtc_probability =
      0.0F;  // chance of dropping all but the least likely token above the threshold; 0 is off
  float xtc_threshold = 0.1F;

  // 0 is greedy: the most likely token that grammar, bias and penalties leave (the lowest id of
  // equals); no truncation applies then.
  float temperature = 0.8F;
  float dynatemp_range = 0.0F;  // temperature moves within +- this, with the entropy; 0 is off
  float dynatemp_exponent = 1.0F;
};

// Checks every field for a vocabulary of `vocabulary_size` tokens. Errors: InvalidArgument naming
// the field, what it accepts and the value that was given.
Status ValidateSamplerOptions(const SamplerOptions& options, int vocabulary_size);

}  // namespace swiftkv
