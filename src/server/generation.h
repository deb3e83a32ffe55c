// SPDX-License-Identifier: Apache-2.0
// Carries a request for text from the engine to its reply, whole or as a stream of events.
//
// Owner: the server's thread. Nothing here waits: whoever owns it is woken, lets it advance and
// takes what has become ready. A generation that goes away cancels what it asked for.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/choice_text.h"
#include "server/generation_task.h"
#include "server/http_message.h"
#include "server/reply_json.h"
#include "server/served_model.h"

namespace swiftkv {

class Generation {
 public:
  // Submits the task. `wake` is called, on the engine's thread, whenever there is something new.
  // Returns null and what is wrong in `error` where the engine refuses.
  static std::unique_ptr<Generation> Start(const ServedModel& model, GenerationTask task,
                                           const std::function<void()>& wake, ApiError* error);

  // Takes in what the engine has ready.
  void Advance();

  // The reply is a stream that has begun: TakeEvents has its next part. A request that fails before
  // its first token never begins one.
  bool streams() const { return streams_; }
  std::string TakeEvents() { return std::exchange(events_, {}); }

  // Everything has been told or, where it does not stream, can be taken.
  bool ended() const { return ended_; }
  HttpReply TakeReply();

 private:
  // One prompt.
  struct Part {
    TokenStream stream;
    bool ended = false;
  };

  Generation(const ServedModel& model, ReplyOptions options);

  void Read(std::size_t part);
  void TellNews();
  void End();
  void Fail(const ApiError& error);
  ReplyUsage Usage() const;

  ReplyOptions options_;
  ReplyJson json_;
  std::vector<Part> parts_;
  std::vector<ChoiceText> choices_;  // of all prompts, in order
  int choices_each_ = 1;             // of one prompt
  std::string kv_format_;
  std::string events_;
  std::optional<ApiError> error_;
  bool streams_ = false;
  bool ended_ = false;
};

}  // namespace swiftkv
