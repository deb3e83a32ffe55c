// SPDX-License-Identifier: Apache-2.0
// Maps options to libllama's samplers, in the order in which the options are listed.
#include "model/sampler_chain.h"

#include <exception>
#include <limits>
#include <map>
#include <regex>
#include <string_view>

#include "base/status_macros.h"
#include "llama.h"
#include "model/grammar_syntax.h"
#include "model/llama_guard.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMinKeep = 1;            // no truncation may leave nothing
constexpr std::int32_t kMirostatTokens = 100;  // of the paper's estimate

LlamaSampler MakeChain() {
  llama_sampler_chain_params params = llama_sampler_chain_default_params();
  params.no_perf = true;
  return LlamaSampler(llama_sampler_chain_init(params));
}

void AddDry(const Vocabulary& vocabulary, const SamplerOptions& options, llama_sampler* chain) {
  std::vector<const char*> breakers;
  for (const std::string& text : options.dry_sequence_breakers) breakers.push_back(text.c_str());
  llama_sampler_chain_add(
      chain, llama_sampler_init_dry(vocabulary.handle(), options.dry_multiplier, options.dry_base,
                                    options.dry_allowed_length, options.dry_last_n, breakers.data(),
                                    breakers.size()));
}

void AddMirostat(const Vocabulary& vocabulary, const SamplerOptions& options, std::uint32_t seed,
                 llama_sampler* chain) {
  llama_sampler_chain_add(chain, llama_sampler_init_temp(options.temperature));
  llama_sampler_chain_add(
      chain,
      options.mirostat == 1
          ? llama_sampler_init_mirostat(vocabulary.size(), seed, options.mirostat_tau,
                                        options.mirostat_eta, kMirostatTokens)
          : llama_sampler_init_mirostat_v2(seed, options.mirostat_tau, options.mirostat_eta));
}

// Returns the words as regular expressions, and the patterns.
std::vector<std::string> AllPatterns(const GrammarTriggers& triggers) {
  std::vector<std::string> patterns;
  for (const std::string& word : triggers.words) {
    std::string& pattern = patterns.emplace_back();
    for (const char c : word) {
      if (std::string_view(R"(.^$|()*+?[]{}\)").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  patterns.insert(patterns.end(), triggers.patterns.begin(), triggers.patterns.end());
  return patterns;
}

// The library would lose memory on a pattern that is none, so that it never sees one.
Status CheckPatterns(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    try {
      const std::regex compiled(pattern);
    } catch (const std::regex_error& error) {
      return Status::InvalidArgument("a grammar's trigger must be an ECMAScript pattern (" +
                                     std::string(error.what()) + "), got \"" + pattern + "\"");
    }
  }
  return Status::Ok();
}

}  // namespace

void LlamaSamplerDeleter::operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }

std::vector<LogitBias> AllBiases(const Vocabulary& vocabulary, const SamplerOptions& options) {
  constexpr float kForbid = -std::numeric_limits<float>::infinity();
  std::map<TokenId, float> sums;
  for (const LogitBias& bias : options.logit_bias) sums[bias.token] += bias.bias;
  for (const TokenId token : vocabulary.suppressed_tokens()) sums[token] = kForbid;
  if (options.ignore_eos) {
    for (const TokenId token : vocabulary.end_of_generation_tokens()) sums[token] = kForbid;
  }
  std::vector<LogitBias> biases;
  biases.reserve(sums.size());
  for (const auto& [token, bias] : sums) biases.push_back({token, bias});
  return biases;
}

bool UsesPenalties(const SamplerOptions& options) {
  return options.penalty_last_n > 0 &&
         (options.repeat_penalty != 1.0F || options.frequency_penalty != 0.0F ||
          options.presence_penalty != 0.0F);
}

bool UsesDry(const SamplerOptions& options) {
  return options.dry_multiplier > 0.0F && options.dry_last_n > 0;
}

LlamaSampler MakeEditChain(const Vocabulary& vocabulary, const SamplerOptions& options,
                           const std::vector<LogitBias>& biases) {
  if (biases.empty() && !UsesPenalties(options) && !UsesDry(options)) return nullptr;
  const LlamaGuard guard;
  LlamaSampler chain = MakeChain();
  if (!biases.empty()) {
    std::vector<llama_logit_bias> rows;
    for (const LogitBias& bias : biases) rows.push_back({bias.token, bias.bias});
    llama_sampler_chain_add(
        chain.get(), llama_sampler_init_logit_bias(
                         vocabulary.size(), static_cast<std::int32_t>(rows.size()), rows.data()));
  }
  if (UsesPenalties(options)) {
    llama_sampler_chain_add(
        chain.get(), llama_sampler_init_penalties(vocabulary.size(), options.penalty_last_n,
                                                  options.repeat_penalty, options.frequency_penalty,
                                                  options.presence_penalty));
  }
  if (UsesDry(options)) AddDry(vocabulary, options, chain.get());
  return chain;
}

LlamaSampler MakeDrawChain(const Vocabulary& vocabulary, const SamplerOptions& options,
                           std::uint32_t seed) {
  LlamaSampler chain = MakeChain();
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(chain.get(), sampler); };
  if (options.mirostat != 0) {
    AddMirostat(vocabulary, options, seed, chain.get());
    return chain;
  }
  if (options.top_n_sigma > 0.0F) add(llama_sampler_init_top_n_sigma(options.top_n_sigma));
  if (options.top_k > 0) add(llama_sampler_init_top_k(options.top_k));
  if (options.typical_p < 1.0F) add(llama_sampler_init_typical(options.typical_p, kMinKeep));
  if (options.top_p < 1.0F) add(llama_sampler_init_top_p(options.top_p, kMinKeep));
  if (options.min_p > 0.0F) add(llama_sampler_init_min_p(options.min_p, kMinKeep));
  if (options.xtc_probability > 0.0F) {
    add(llama_sampler_init_xtc(options.xtc_probability, options.xtc_threshold, kMinKeep, seed));
  }
  add(llama_sampler_init_temp_ext(options.temperature, options.dynatemp_range,
                                  options.dynatemp_exponent));
  add(llama_sampler_init_dist(seed));
  return chain;
}

Result<LlamaSampler> MakeGrammar(const Vocabulary& vocabulary, const std::string& grammar,
                                 const std::optional<GrammarTriggers>& triggers) {
  SKV_RETURN_IF_ERROR(CheckGrammarSyntax(grammar, vocabulary));
  const std::vector<std::string> patterns =
      triggers ? AllPatterns(*triggers) : std::vector<std::string>();
  SKV_RETURN_IF_ERROR(CheckPatterns(patterns));
  const LlamaGuard guard;
  std::string reason = "the grammar library refuses it";
  try {
    LlamaSampler sampler;
    if (triggers) {
      std::vector<const char*> texts;
      for (const std::string& pattern : patterns) texts.push_back(pattern.c_str());
      sampler.reset(llama_sampler_init_grammar_lazy_patterns(
          vocabulary.handle(), grammar.c_str(), "root", texts.data(), texts.size(), nullptr, 0));
    } else {
      sampler.reset(llama_sampler_init_grammar(vocabulary.handle(), grammar.c_str(), "root"));
    }
    if (sampler != nullptr) return sampler;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  return Status::InvalidArgument("the grammar must be GBNF with a rule `root`: " +
                                 guard.Reason(reason));
}

}  // namespace swiftkv
