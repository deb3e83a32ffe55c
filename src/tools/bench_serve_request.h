// SPDX-License-Identifier: Apache-2.0
// Writes requests of the OpenAI API and reads their streams.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/bench_serve_client.h"
#include "tools/bench_serve_figures.h"
#include "tools/bench_serve_options.h"
#include "tools/bench_serve_workload.h"

namespace swiftkv {

// What was said so far, as the next request shows it.
class ServeConversation {
 public:
  explicit ServeConversation(bool chat) : chat_(chat) {}

  void Say(const ServeTurn& turn);
  void Hear(const std::string& reply);

  // Returns the body of a request for the next reply; `model` may be empty.
  std::string RequestBody(const BenchServeOptions& options, const std::string& model) const;

 private:
  bool chat_;
  std::vector<int> ids_;
  std::vector<std::string> texts_;  // user's and server's in turn
  int output_tokens_ = 0;
};

// Reads the events of one reply; pieces of text may come several tokens at a time. Where no event
// has text (a server without a tokenizer, tokens that are half a character), all count.
class ServeReplyReader {
 public:
  explicit ServeReplyReader(ServeClock::time_point sent) : sent_(sent) {}

  void Read(const std::string& data, ServeClock::time_point time);

  const std::string& text() const { return text_; }

  // Fills times, tokens and, where the reply is not a whole one, the failure. `origin` is the start
  // of the load, `planned_tokens` what the prompt has where the server does not say.
  void Finish(const ServedReply& reply, ServeClock::time_point origin, int planned_tokens,
              ServeRecord* record) const;

 private:
  void ReadChoice(const nlohmann::json& choice, ServeClock::time_point time);
  void ReadUsage(const nlohmann::json& event);
  std::string Failure(const ServedReply& reply) const;

  ServeClock::time_point sent_;
  // Of events with text, and of all with a choice.
  std::vector<ServeClock::time_point> texts_;
  std::vector<ServeClock::time_point> choices_;
  std::string text_;
  std::string error_;  // an error object's message
  int prompt_tokens_ = -1;
  int output_tokens_ = -1;
  int cached_tokens_ = -1;
  bool ended_ = false;  // a finish reason or [DONE] came
  bool done_ = false;   // [DONE] came: what is cut off behind it is no text
  bool garbled_ = false;
};

}  // namespace swiftkv
