// SPDX-License-Identifier: Apache-2.0
// Draws tokens: preselect, edit, truncate and draw; then, where a grammar refuses, draw again among
// what it allows.
#include "model/sampler.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <limits>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "llama.h"
#include "model/llama_guard.h"
#include "model/logit_preselection.h"
#include "model/reply_grammar.h"
#include "model/sampler_chain.h"

namespace swiftkv {
namespace {

// Logits that a grammar looks at first; more only where it leaves fewer than are needed.
constexpr std::size_t kGrammarCandidates = 256;
constexpr std::size_t kGrammarGrowth = 16;

// Below 2^53, so that it survives a number of JSON, which may be a double.
std::uint64_t DrawSeed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32 | device()) >> 11;
}

// The library takes 32 bits and keeps one value for "draw one".
std::uint32_t LibrarySeed(std::uint64_t seed) {
  const auto folded = static_cast<std::uint32_t>(seed ^ (seed >> 32));
  return folded == LLAMA_DEFAULT_SEED ? folded - 1 : folded;
}

// The last `capacity` accepted tokens: those that penalties may change.
class RecentTokens {
 public:
  explicit RecentTokens(std::size_t capacity) : capacity_(capacity) {}
  void Add(TokenId token) {
    if (capacity_ == 0) return;
    if (tokens_.size() == capacity_) tokens_.pop_front();
    tokens_.push_back(token);
  }
  const std::deque<TokenId>& tokens() const { return tokens_; }

 private:
  std::size_t capacity_;
  std::deque<TokenId> tokens_;
};

}  // namespace

struct Sampler::Impl {
  Impl(const Vocabulary& owner, const SamplerOptions& given, std::uint64_t chosen_seed);

  // Fills `candidates` with the tokens that may be edited and the `count` best others, or with all
  // tokens where `count` is 0.
  void Gather(std::span<const float> logits, std::size_t count);
  // Fills `candidates` with tokens that the grammar allows: all that the chain could tell apart
  // from the full set.
  void GatherAllowed(std::span<const float> logits);
  // Draws one of `candidates`. Errors: InvalidArgument where nothing is left.
  Result<TokenId> Draw();
  Result<TokenId> Sample(std::span<const float> logits);
  Status Accept(TokenId token);
  bool GrammarHolds() const { return grammar != nullptr && grammar->holds(); }
  void DropForbidden();

  const Vocabulary* vocabulary;
  SamplerOptions options;
  std::uint64_t seed;
  std::vector<LogitBias> biases;
  LlamaSampler edits;                     // null: none
  LlamaSampler draw;                      // null: greedy
  std::unique_ptr<ReplyGrammar> grammar;  // null: none
  RecentTokens recent;
  LogitPreselection preselection;
  std::size_t kept;  // logits that survive the chain's top-k; 0: all may
  std::vector<llama_token_data> candidates;
  bool sorted = false;  // candidates are
};

Sampler::Impl::Impl(const Vocabulary& owner, const SamplerOptions& given, std::uint64_t chosen_seed)
    : vocabulary(&owner),
      options(given),
      seed(chosen_seed),
      biases(AllBiases(owner, given)),
      edits(MakeEditChain(owner, given, biases)),
      recent(static_cast<std::size_t>(std::max(UsesPenalties(given) ? given.penalty_last_n : 0,
                                               UsesDry(given) ? given.dry_last_n : 0))),
      preselection(owner.size()),
      kept(0) {
  if (options.temperature == 0.0F) {
    kept = 1;
    return;
  }
  draw = MakeDrawChain(owner, options, LibrarySeed(seed));
  // Mirostat and top-n-sigma look at the whole distribution.
  if (options.mirostat == 0 && options.top_n_sigma <= 0.0F && options.top_k < owner.size()) {
    kept = static_cast<std::size_t>(options.top_k);
  }
}

void Sampler::Impl::Gather(std::span<const float> logits, std::size_t count) {
  if (count > 0) {
    preselection.Start();
    for (const LogitBias& bias : biases) preselection.AddEdited(bias.token);
    for (const TokenId token : recent.tokens()) preselection.AddEdited(token);
    preselection.Select(logits, count, &candidates);
    sorted = true;
    return;
  }
  candidates.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    candidates[i] = {static_cast<TokenId>(i), logits[i], 0.0F};
  }
  sorted = false;
}

void Sampler::Impl::GatherAllowed(std::span<const float> logits) {
  std::size_t looked_at = std::max(kGrammarCandidates, 2 * kept);
  for (;;) {
    const bool all = kept == 0 || looked_at >= logits.size();
    Gather(logits, all ? 0 : looked_at);
    llama_token_data_array array{candidates.data(), candidates.size(), -1, sorted};
    llama_sampler_apply(grammar->sampler(), &array);
    DropForbidden();
    // Tokens that may be edited are there in any case; `kept` others make the rest irrelevant.
    if (all || candidates.size() >= kept + preselection.edited_count()) return;
    looked_at *= kGrammarGrowth;
  }
}

void Sampler::Impl::DropForbidden() {
  // -infinity means nothing to the truncating steps, which would divide by or take the logarithm of
  // its probability.
  std::erase_if(candidates, [](const llama_token_data& candidate) {
    return !(candidate.logit > -std::numeric_limits<float>::infinity());
  });
}

Result<TokenId> Sampler::Impl::Draw() {
  if (edits != nullptr) {
    llama_token_data_array array{candidates.data(), candidates.size(), -1, false};
    llama_sampler_apply(edits.get(), &array);
    sorted = false;
  }
  DropForbidden();
  if (candidates.empty()) {
    return Status::InvalidArgument(
        "grammar, logit bias and ignore_eos must leave at least one token; they forbid all " +
        std::to_string(vocabulary->size()));
  }
  if (draw == nullptr) {
    const auto best =
        std::max_element(candidates.begin(), candidates.end(),
                         [](const llama_token_data& a, const llama_token_data& b) {
                           return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
                         });
    return best->id;
  }
  llama_token_data_array array{candidates.data(), candidates.size(), -1, sorted};
  llama_sampler_apply(draw.get(), &array);
  SKV_CHECK(array.selected >= 0 && static_cast<std::size_t>(array.selected) < array.size,
            "the last step of the chain chooses a token");
  return array.data[array.selected].id;
}

Sampler::Sampler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sampler::~Sampler() = default;

Result<std::unique_ptr<Sampler>> Sampler::Create(const Vocabulary& vocabulary,
                                                 const SamplerOptions& options) {
  SKV_RETURN_IF_ERROR(ValidateSamplerOptions(options, vocabulary.size()));
  SKV_ASSIGN_OR_RETURN(std::unique_ptr<ReplyGrammar> grammar,
                       ReplyGrammar::Create(vocabulary, options));
  auto impl = std::make_unique<Impl>(vocabulary, options,
                                     options.seed.has_value() ? *options.seed : DrawSeed());
  impl->grammar = std::move(grammar);
  return std::unique_ptr<Sampler>(new Sampler(std::move(impl)));
}

void Sampler::AcceptPrompt(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    SKV_CHECK(impl_->vocabulary->Contains(token), "a prompt's tokens were checked before");
    if (impl_->edits != nullptr) llama_sampler_accept(impl_->edits.get(), token);
    impl_->recent.Add(token);
  }
}

Result<TokenId> Sampler::Impl::Sample(std::span<const float> logits) {
  // Mirostat learns from each draw, so it must not see one that is thrown away.
  if (!GrammarHolds() || options.mirostat == 0) {
    Gather(logits, kept);
    Result<TokenId> token = Draw();
    if (!token.ok() || !GrammarHolds() || grammar->Allows(*token)) return token;
  }
  GatherAllowed(logits);
  return Draw();
}

Status Sampler::Impl::Accept(TokenId token) {
  if (grammar != nullptr) {
    // The library aborts or throws on a token that it would have refused.
    if (GrammarHolds() && !grammar->Allows(token)) {
      return Status::InvalidArgument("the grammar does not allow this token here: " +
                                     std::to_string(token));
    }
    grammar->Accept(token);
  }
  if (edits != nullptr) llama_sampler_accept(edits.get(), token);
  if (draw != nullptr) llama_sampler_accept(draw.get(), token);
  recent.Add(token);
  return Status::Ok();
}

Result<TokenId> Sampler::Sample(std::span<const float> logits) {
  SKV_CHECK(logits.size() == static_cast<std::size_t>(impl_->vocabulary->size()),
            "one logit per token");
  const LogitScan scan = impl_->preselection.Scan(logits);
  if (!scan.finite || scan.best == -std::numeric_limits<float>::infinity()) {
    return Status::Internal("the model's logits must be finite to choose a token, not " +
                            std::string(scan.finite ? "all -infinity" : "NaN or infinity"));
  }
  const LlamaGuard guard;
  try {
    return impl_->Sample(logits);
  } catch (const std::exception& error) {
    return Status::Internal("the sampler library failed: " + std::string(error.what()));
  }
}

Status Sampler::Accept(TokenId token) {
  if (!impl_->vocabulary->Contains(token)) {
    return Status::InvalidArgument("a token must be from 0 to " +
                                   std::to_string(impl_->vocabulary->size() - 1) + ", not " +
                                   std::to_string(token));
  }
  const LlamaGuard guard;
  try {
    return impl_->Accept(token);
  } catch (const std::exception& error) {
    return Status::Internal("the sampler library failed: " + std::string(error.what()));
  }
}

std::uint64_t Sampler::seed() const { return impl_->seed; }

void Sampler::DisablePreselection() { impl_->kept = 0; }

}  // namespace swiftkv
