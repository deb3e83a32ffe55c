// SPDX-License-Identifier: Apache-2.0
// Builds libllama's samplers for a set of options. Layer: model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/vocabulary.h"
#include "swiftkv/sampler_options.h"
#include "swiftkv/status.h"

struct llama_sampler;

namespace swiftkv {

struct LlamaSamplerDeleter {
  void operator()(llama_sampler* sampler) const;
};
using LlamaSampler = std::unique_ptr<llama_sampler, LlamaSamplerDeleter>;

// Returns one bias per token, ascending: those of the options, the tokens that the model
// suppresses, and with ignore_eos every token that ends a reply.
std::vector<LogitBias> AllBiases(const Vocabulary& vocabulary, const SamplerOptions& options);

bool UsesPenalties(const SamplerOptions& options);
bool UsesDry(const SamplerOptions& options);

// Returns the steps that change logits of single tokens: bias, penalties, DRY. Null when there are
// none.
LlamaSampler MakeEditChain(const Vocabulary& vocabulary, const SamplerOptions& options,
                           const std::vector<LogitBias>& biases);

// Returns the steps that truncate, heat and draw. The temperature must not be 0.
LlamaSampler MakeDrawChain(const Vocabulary& vocabulary, const SamplerOptions& options,
                           std::uint32_t seed);

// Returns the state of a grammar, which with triggers awaits one of them. Errors: InvalidArgument
// with the reason.
Result<LlamaSampler> MakeGrammar(const Vocabulary& vocabulary, const std::string& grammar,
                                 const std::optional<GrammarTriggers>& triggers);

}  // namespace swiftkv
