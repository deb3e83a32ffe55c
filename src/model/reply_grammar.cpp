// SPDX-License-Identifier: Apache-2.0
// Watches the newest bytes of a reply for trigger words and hands over to the library's grammar.
#include "model/reply_grammar.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "llama.h"
#include "model/llama_guard.h"

namespace swiftkv {
namespace {

// Returns where the first of `texts` is complete, as its begin; npos: none is.
std::size_t FindFirst(const std::string& text, const std::vector<std::string>& texts,
                      std::size_t* end) {
  std::size_t found = std::string::npos;
  *end = std::string::npos;
  for (const std::string& one : texts) {
    const std::size_t at = text.find(one);
    if (at == std::string::npos || at + one.size() >= *end) continue;
    found = at;
    *end = at + one.size();
  }
  return found;
}

std::size_t Longest(const GrammarTriggers& triggers) {
  std::size_t longest = std::max<std::size_t>(1, triggers.reasoning_start.size());
  for (const std::string& word : triggers.words) longest = std::max(longest, word.size());
  for (const std::string& end : triggers.reasoning_ends) longest = std::max(longest, end.size());
  return longest;
}

}  // namespace

ReplyGrammar::ReplyGrammar(const Vocabulary& vocabulary, LlamaSampler sampler)
    : vocabulary_(&vocabulary), sampler_(std::move(sampler)) {}

Result<std::unique_ptr<ReplyGrammar>> ReplyGrammar::Create(const Vocabulary& vocabulary,
                                                           const SamplerOptions& options) {
  if (options.grammar.empty()) return std::unique_ptr<ReplyGrammar>();
  SKV_ASSIGN_OR_RETURN(LlamaSampler sampler,
                       MakeGrammar(vocabulary, options.grammar, options.grammar_triggers));
  std::unique_ptr<ReplyGrammar> made(new ReplyGrammar(vocabulary, std::move(sampler)));
  if (!options.grammar_triggers) {
    SKV_RETURN_IF_ERROR(made->AcceptPrefix(options.grammar_prefix));
    return made;
  }
  made->triggers_ = *options.grammar_triggers;
  made->longest_ = Longest(made->triggers_);
  made->in_reasoning_ = made->triggers_.in_reasoning;
  // Patterns may span any number of tokens, so the library sees all of them; until one matches it
  // allows everything.
  made->watches_words_ = made->triggers_.patterns.empty();
  made->holds_ = !made->watches_words_;
  return made;
}

Status ReplyGrammar::AcceptPrefix(const std::string& prefix) {
  if (prefix.empty()) return Status::Ok();
  const TextPart part{prefix, /*trusted=*/true};
  SKV_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                       vocabulary_->Encode({&part, 1}, {.continues = true, .forbidden = {}}));
  const LlamaGuard guard;
  try {
    for (const TokenId token : tokens) {
      if (!Allows(token)) {
        return Status::InvalidArgument(
            "the grammar must allow the prefix that it is said to describe, not only its beginning "
            "before: " +
            vocabulary_->TokenToPiece(token, true));
      }
      llama_sampler_accept(sampler_.get(), token);
    }
  } catch (const std::exception& error) {
    return Status::InvalidArgument("the grammar refuses its prefix: " + std::string(error.what()));
  }
  return Status::Ok();
}

bool ReplyGrammar::Allows(TokenId token) {
  llama_token_data single{token, 1.0F, 0.0F};
  llama_token_data_array array{&single, 1, -1, false};
  llama_sampler_apply(sampler_.get(), &array);
  return single.logit > -std::numeric_limits<float>::infinity();
}

void ReplyGrammar::Accept(TokenId token) {
  if (holds_) {
    try {
      llama_sampler_accept(sampler_.get(), token);
    } catch (const std::exception&) {
      if (triggers_.patterns.empty()) throw;
      holds_ = false;  // as in Trigger
    }
  } else if (watches_words_) {
    Await(token);
  }
}

void ReplyGrammar::Await(TokenId token) {
  const std::string piece = vocabulary_->TokenToPiece(token, /*show_control=*/true);
  tail_ += piece;
  pieces_.push_back({token, piece.size()});
  std::size_t end = 0;
  while (LeaveReasoning()) {
    const std::size_t at = FindFirst(tail_, triggers_.words, &end);
    const std::size_t thought = triggers_.reasoning_start.empty()
                                    ? std::string::npos
                                    : tail_.find(triggers_.reasoning_start);
    if (thought != std::string::npos && thought < at) {
      in_reasoning_ = true;
      DropBefore(thought + triggers_.reasoning_start.size());
      continue;
    }
    if (at != std::string::npos) return Trigger(at);
    break;
  }
  if (tail_.size() >= longest_) DropBefore(tail_.size() - (longest_ - 1));
}

bool ReplyGrammar::LeaveReasoning() {
  if (!in_reasoning_) return true;
  std::size_t end = 0;
  const std::size_t at = FindFirst(tail_, triggers_.reasoning_ends, &end);
  if (at == std::string::npos) return false;
  in_reasoning_ = false;
  DropBefore(at);  // what ends reasoning may itself be a trigger
  return true;
}

void ReplyGrammar::Trigger(std::size_t at) {
  DropBefore(at);
  watches_words_ = false;
  try {
    for (const Piece& piece : pieces_) llama_sampler_accept(sampler_.get(), piece.token);
    holds_ = true;
  } catch (const std::exception&) {
    // The last token went on behind the word in a way that the grammar does not know. It has been
    // drawn, so the reply goes on without a grammar; its reader takes what it can.
    holds_ = false;
  }
  pieces_.clear();
  tail_.clear();
}

void ReplyGrammar::DropBefore(std::size_t offset) {
  tail_.erase(0, offset);
  offset += cut_;
  while (!pieces_.empty() && pieces_.front().bytes <= offset) {
    offset -= pieces_.front().bytes;
    pieces_.pop_front();
  }
  cut_ = offset;
}

}  // namespace swiftkv
