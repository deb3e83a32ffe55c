// SPDX-License-Identifier: Apache-2.0
// Draws the next token of a choice, tells it to the reader, and sees where the choice ends. Layer:
// engine.
//
// Owner: the engine's thread. A choice's draws depend on its own sampler and logits alone, so a
// seeded reply does not depend on who else is in the batch.
#pragma once

#include <span>

#include "engine/active_request.h"
#include "model/vocabulary.h"
#include "swiftkv/status.h"

namespace swiftkv {

class SamplingStage {
 public:
  // `vocabulary` must outlive the stage; `context`: tokens that one sequence may hold.
  SamplingStage(const Vocabulary* vocabulary, int context)
      : vocabulary_(vocabulary), context_(static_cast<std::size_t>(context)) {}

  // Appends the token that follows `choice->tokens`, of whose last one `logits` [vocabulary size]
  // are, and pushes the event. Returns whether the choice has ended; its last event is pushed then.
  // Errors: the sampler's; nothing was pushed.
  Result<bool> Next(ActiveRequest* request, ActiveChoice* choice,
                    std::span<const float> logits) const;

  // Pushes the prompt's tokens from the first that was not told to the one after position `first` +
  // rows - 1, where it has one. `logits`: [rows, vocabulary size], of the prompt's tokens from
  // position `first` on.
  void TellPrompt(ActiveRequest* request, std::size_t first, std::span<const float> logits) const;

 private:
  Result<TokenEvent> Draw(ActiveRequest* request, ActiveChoice* choice,
                          std::span<const float> logits) const;
  LengthLimit LimitOf(const ActiveRequest& request, const ActiveChoice& choice) const;

  const Vocabulary* vocabulary_;
  std::size_t context_;
};

// Pushes the last event of a choice that ends without a token of its own.
void TellEnd(ActiveRequest* request, ActiveChoice* choice, FinishReason reason, LengthLimit limit);

}  // namespace swiftkv
