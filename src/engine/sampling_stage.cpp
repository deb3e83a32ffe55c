// SPDX-License-Identifier: Apache-2.0
// Implements drawing and telling.
#include "engine/sampling_stage.h"

#include <utility>

#include "base/status_macros.h"
#include "model/logprobs.h"

namespace swiftkv {

LengthLimit SamplingStage::LimitOf(const ActiveRequest& request, const ActiveChoice& choice) const {
  const std::size_t reply = choice.tokens.size() - request.prompt_tokens();
  const int most = request.asked.max_tokens;
  if (most >= 0 && reply >= static_cast<std::size_t>(most)) return LengthLimit::kMaxTokens;
  return choice.tokens.size() >= context_ ? LengthLimit::kContext : LengthLimit::kNone;
}

Result<TokenEvent> SamplingStage::Draw(ActiveRequest* request, ActiveChoice* choice,
                                       std::span<const float> logits) const {
  TokenEvent event;
  event.choice = choice->index;
  SKV_ASSIGN_OR_RETURN(const TokenId token, choice->sampler->Sample(logits));
  if (vocabulary_->IsEndOfGeneration(token)) {
    event.end_token = token;
    event.finish = choice->finish = FinishReason::kStop;
    return event;
  }
  SKV_RETURN_IF_ERROR(choice->sampler->Accept(token));
  event.token = token;
  if (request->asked.logprobs >= 0) event.logprob = LogprobOf(logits, token);
  if (request->asked.logprobs > 0) event.top = TopLogprobs(logits, request->asked.logprobs);
  event.text = choice->text->Push(token);
  choice->tokens.push_back(token);
  ++request->usage.completion_tokens;
  event.limit = LimitOf(*request, *choice);
  if (event.limit != LengthLimit::kNone) event.finish = choice->finish = FinishReason::kLength;
  return event;
}

Result<bool> SamplingStage::Next(ActiveRequest* request, ActiveChoice* choice,
                                 std::span<const float> logits) const {
  // Only a request for no tokens at all is at its limit before anything is drawn.
  if (LimitOf(*request, *choice) != LengthLimit::kNone) {
    TellEnd(request, choice, FinishReason::kLength, LimitOf(*request, *choice));
    return true;
  }
  SKV_ASSIGN_OR_RETURN(TokenEvent event, Draw(request, choice, logits));
  if (request->usage.first_token_seconds == 0) {
    request->usage.first_token_seconds = request->SecondsSinceSubmit();
  }
  const bool ended = event.finish.has_value();
  if (ended) event.text += choice->text->Finish();
  request->stream->Push(std::move(event));
  return ended;
}

void SamplingStage::TellPrompt(ActiveRequest* request, std::size_t first,
                               std::span<const float> logits) const {
  const std::vector<std::int32_t>& prompt = request->asked.prompt;
  const auto words = static_cast<std::size_t>(vocabulary_->size());
  TokenEvent event;
  const auto add = [&](PromptToken told) {
    told.text = request->prompt_text->Push(told.token);
    event.prompt.push_back(std::move(told));
    ++request->told_prompt;
  };
  if (request->told_prompt == 0) add({.token = prompt.front()});
  for (; !logits.empty() && first + 1 < prompt.size(); ++first, logits = logits.subspan(words)) {
    const std::span<const float> own = logits.first(words);
    const TokenId next = prompt[first + 1];
    add({.token = next,
         .logprob = LogprobOf(own, next),
         .top = TopLogprobs(own, request->asked.prompt_logprobs)});
  }
  request->stream->Push(std::move(event));
}

void TellEnd(ActiveRequest* request, ActiveChoice* choice, FinishReason reason, LengthLimit limit) {
  TokenEvent event;
  event.choice = choice->index;
  event.text = choice->text->Finish();
  event.finish = choice->finish = reason;
  event.limit = limit;
  request->stream->Push(std::move(event));
}

}  // namespace swiftkv
