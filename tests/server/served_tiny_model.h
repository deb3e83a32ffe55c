// SPDX-License-Identifier: Apache-2.0
// Gives tests the API over a tiny model, and calls it as a connection does.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/tiny_engine.h"
#include "server/api.h"

namespace swiftkv {

struct ApiReply {
  int status = 0;
  Json body;                 // of a whole reply
  std::vector<Json> events;  // of a stream, without the last
  bool streamed = false;
  bool ended_well = false;  // the stream's last event came, once and last

  std::string message() const { return body["error"]["message"].get<std::string>(); }
};

// Splits server-sent events; fails the test where the framing is wrong.
inline void ReadEvents(const std::string& text, ApiReply* reply) {
  reply->streamed = true;
  std::size_t begin = 0;
  while (begin < text.size()) {
    EXPECT_FALSE(reply->ended_well) << "an event follows the last";
    const std::size_t end = text.find("\n\n", begin);
    ASSERT_NE(end, std::string::npos);
    const std::string event = text.substr(begin, end - begin);
    ASSERT_EQ(event.rfind("data: ", 0), 0U) << event;
    begin = end + 2;
    if (event == "data: [DONE]") {
      reply->ended_well = true;
      continue;
    }
    reply->events.push_back(Json::parse(event.substr(6), nullptr, false));
    EXPECT_FALSE(reply->events.back().is_discarded()) << event;
  }
}

class ServedTinyModel {
 public:
  explicit ServedTinyModel(ApiAccess access = {}, const EngineLimits& limits = {},
                           const TinySessionOptions& options = {},
                           const std::string& template_source = "")
      : tiny_(MakeTinyEngine(options, limits)),
        template_(MakeTemplate(*tiny_.parts.vocabulary, template_source)) {
    ServedModel model;
    model.name = "tiny";
    model.engine = tiny_.engine.get();
    model.vocabulary = tiny_.parts.vocabulary.get();
    model.chat_template = template_.get();
    model.kv_format = "f32";
    model.context = tiny_.parts.model->context();
    api_ = std::make_unique<Api>(model, std::move(access));
  }

  Api& api() { return *api_; }
  TinyEngine& tiny() { return tiny_; }
  const Vocabulary& vocabulary() const { return *tiny_.parts.vocabulary; }

  ApiReply Call(HttpRequest request) {
    ApiOutcome outcome = api_->Handle(request, [this] { Ring(); });
    if (outcome.generation == nullptr) return Whole(outcome.reply);
    std::string events;
    for (;;) {
      outcome.generation->Advance();
      events += outcome.generation->TakeEvents();
      if (outcome.generation->ended()) break;
      Wait();
    }
    if (!outcome.generation->streams()) return Whole(outcome.generation->TakeReply());
    ApiReply reply;
    reply.status = 200;
    ReadEvents(events, &reply);
    return reply;
  }

  ApiReply Post(const std::string& path, const std::string& body, const std::string& key = "") {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    if (!key.empty()) request.authorization = "Bearer " + key;
    return Call(std::move(request));
  }
  ApiReply PostJson(const std::string& path, const Json& body) {
    return Post(path, WriteJson(body));
  }

  ApiReply Get(const std::string& path) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    return Call(std::move(request));
  }

 private:
  // The vocabulary's own template where `source` is empty.
  static std::unique_ptr<ChatTemplate> MakeTemplate(const Vocabulary& vocabulary,
                                                    const std::string& source) {
    return source.empty() ? ChatTemplate::FromVocabulary(vocabulary).value()
                          : ChatTemplate::FromSource(vocabulary, source).value();
  }

  static ApiReply Whole(const HttpReply& whole) {
    ApiReply reply;
    reply.status = whole.status;
    reply.body = Json::parse(whole.body, nullptr, false);
    EXPECT_FALSE(reply.body.is_discarded()) << whole.body;
    return reply;
  }

  void Ring() {
    {
      const std::lock_guard lock(mutex_);
      rung_ = true;
    }
    heard_.notify_one();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(heard_.wait_for(lock, kPatience, [this] { return rung_; }));
    rung_ = false;
  }

  std::mutex mutex_;
  std::condition_variable heard_;
  bool rung_ = false;
  TinyEngine tiny_;
  std::unique_ptr<ChatTemplate> template_;
  std::unique_ptr<Api> api_;
};

}  // namespace swiftkv
