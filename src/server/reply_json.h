// SPDX-License-Identifier: Apache-2.0
// Shapes replies as the OpenAI API does: whole objects, events of a stream, log-probabilities.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/vocabulary.h"
#include "server/api_error.h"
#include "server/generation_task.h"
#include "server/reply_reader.h"
#include "swiftkv/request.h"

namespace swiftkv {

// Log-probabilities of one token, and what is known of it.
struct ToldToken {
  TokenLogprob drawn;
  bool is_first = false;  // of a prompt: nothing comes before it that would tell its probability
  std::vector<TokenLogprob> top;
  std::size_t text_offset = 0;  // characters of the choice's text before it
};

// What one choice has to tell since it was last asked.
struct ChoiceNews {
  int index = 0;
  bool first = false;  // nothing was told before
  std::string text;
  std::string reasoning;            // of a chat, before the text
  std::vector<ToolCallNews> calls;  // of a chat, behind the text
  std::vector<ToldToken> tokens;    // where log-probabilities are wanted
  std::string finish_reason;        // empty: goes on
};

// What all prompts of a request took together.
struct ReplyUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
  RequestUsage first;     // of the first prompt, for times and reasons
  std::string kv_format;  // that the cache stored it in
};

class ReplyJson {
 public:
  // The vocabulary outlives it. `model`: the name told.
  ReplyJson(ReplyKind kind, const Vocabulary* vocabulary, std::string model);

  // The data of a stream's event, as JSON; each ends up in "data: ...\n\n". `with_usage`: a field
  // usage is null in all events but the last.
  std::vector<Json> Events(const ChoiceNews& news, bool with_usage) const;
  Json UsageEvent(const ReplyUsage& usage) const;
  // The whole reply; each news tells all of its choice.
  Json Whole(const std::vector<ChoiceNews>& choices, const ReplyUsage& usage) const;

 private:
  Json Envelope(const char* object) const;
  Json Choice(const ChoiceNews& news, bool streamed) const;
  Json Delta(int index, Json delta) const;
  Json Logprobs(const std::vector<ToldToken>& tokens) const;
  Json CompletionLogprobs(const std::vector<ToldToken>& tokens) const;
  Json ChatLogprob(const TokenLogprob& told) const;

  ReplyKind kind_;
  const Vocabulary* vocabulary_;
  std::string model_;
  std::string id_;
  std::int64_t created_ = 0;  // seconds since 1970
};

// Returns "data: {...}\n\n".
std::string ServerSentEvent(const Json& data);
inline constexpr const char* kLastServerSentEvent = "data: [DONE]\n\n";

}  // namespace swiftkv
