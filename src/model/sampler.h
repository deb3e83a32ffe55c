// SPDX-License-Identifier: Apache-2.0
// Draws a request's tokens from logits, reproducibly for a seed. Layer: model.
//
// Owner: one request, one thread at a time. The library's sampler chain does the work; where it
// cannot change the result, only a preselection of the logits goes through it. Penalties depend on
// the accepted tokens alone, so the same prompt gives the same tokens whether or not its K/V came
// from the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/logprobs.h"  // for callers that report what was drawn
#include "model/vocabulary.h"
#include "swiftkv/sampler_options.h"
#include "swiftkv/status.h"

namespace swiftkv {

class Sampler {
 public:
  // `vocabulary` must outlive the sampler. Errors: InvalidArgument for options out of range or a
  // grammar that does not parse, with the parser's reason.
  static Result<std::unique_ptr<Sampler>> Create(const Vocabulary& vocabulary,
                                                 const SamplerOptions& options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Shows the prompt to the penalties. Every prompt token must be shown, cached or not; the grammar
  // does not see them.
  void AcceptPrompt(std::span<const TokenId> tokens);

  // Draws a token; the state stays as it was but for the random generator. `logits`:
  // [vocabulary.size()] f32. Errors: Internal when the logits leave nothing to choose (NaN, all
  // -infinity), InvalidArgument when grammar and bias together forbid every token.
  Result<TokenId> Sample(std::span<const float> logits);

  // Takes `token` as the next of the reply; it need not be the one that was sampled. Errors:
  // InvalidArgument when the grammar does not allow it.
  Status Accept(TokenId token);

  // The seed in use, whether given or drawn.
  std::uint64_t seed() const;

  // For tests: sends every logit through the chain.
  void DisablePreselection();

 private:
  struct Impl;
  explicit Sampler(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace swiftkv
