// SPDX-License-Identifier: Apache-2.0
// Follows a reply through a grammar that holds from its start, or from where a trigger is complete.
// Layer: model.
//
// Owner: one sampler. The library looks for triggers by searching all of the reply after every
// token; here words are looked for in the newest bytes only, so that a long reply costs no more a
// token than a short one, and the library sees just the tokens that the word touches.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "model/sampler_chain.h"
#include "model/vocabulary.h"
#include "swiftkv/sampler_options.h"
#include "swiftkv/status.h"

namespace swiftkv {

class ReplyGrammar {
 public:
  // Returns null where the options have no grammar. Errors: InvalidArgument for a grammar that does
  // not parse, a pattern that is none, or a prefix that the grammar does not allow.
  static Result<std::unique_ptr<ReplyGrammar>> Create(const Vocabulary& vocabulary,
                                                      const SamplerOptions& options);

  // The next token must be one that the grammar allows.
  bool holds() const { return holds_; }
  // The library's own, to apply to candidates.
  llama_sampler* sampler() { return sampler_.get(); }
  bool Allows(TokenId token);

  // Takes the next token of the reply, which must be allowed where the grammar holds. May throw
  // what the library throws.
  void Accept(TokenId token);

 private:
  struct Piece {
    TokenId token;
    std::size_t bytes;
  };

  ReplyGrammar(const Vocabulary& vocabulary, LlamaSampler sampler);

  Status AcceptPrefix(const std::string& prefix);
  void Await(TokenId token);
  // Moves over the beginnings and ends of reasoning; returns whether the text is outside of it.
  bool LeaveReasoning();
  void Trigger(std::size_t at);
  void DropBefore(std::size_t offset);

  const Vocabulary* vocabulary_;
  LlamaSampler sampler_;
  bool holds_ = true;
  bool watches_words_ = false;
  GrammarTriggers triggers_;
  std::size_t longest_ = 1;   // bytes of a word or marker
  std::string tail_;          // the newest text that may still begin one
  std::deque<Piece> pieces_;  // the tokens that it is made of
  std::size_t cut_ = 0;       // bytes of the first of them that are in tail_ no more
  bool in_reasoning_ = false;
};

}  // namespace swiftkv
