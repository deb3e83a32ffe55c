// SPDX-License-Identifier: Apache-2.0
// Answers requests of the HTTP API: the table of routes, who may call them, and what they do.
//
// Any thread may call. Free of any HTTP library, so that tests call it as connections do.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/generation.h"
#include "server/http_message.h"
#include "server/served_model.h"
#include "server/server_statistics.h"

namespace swiftkv {

struct ApiAccess {
  std::vector<std::string> keys;        // each is a tenant of its own; empty: anybody may call
  std::vector<std::string> admin_keys;  // of operators' routes; empty: those answer on loopback
};

// Either a reply, or what will become one.
struct ApiOutcome {
  HttpReply reply;
  std::unique_ptr<Generation> generation;
};

class Api {
 public:
  Api(ServedModel model, ApiAccess access);

  // Returns what a request is refused with whatever its body says, so that the body of one who may
  // not call need not be read.
  std::optional<HttpReply> Screen(const HttpRequest& head) const;

  // `wake` is called, on any thread, whenever the generation has something new.
  ApiOutcome Handle(const HttpRequest& request, const std::function<void()>& wake);

  // From now on everything but /health is refused: the server is about to stop.
  void StartDraining() { draining_ = true; }
  // Cancels what is under way within a step and ends the engine.
  void StopEngine() { model_.engine->Shutdown(); }

  // Where connections count what they see.
  ServerCounters& counters() { return counters_; }

 private:
  struct Route;
  static const Route* FindRoute(const std::string& path);

  ApiOutcome Dispatch(const HttpRequest& request, const std::function<void()>& wake);
  ApiOutcome Call(const Route& route, const HttpRequest& request,
                  const std::function<void()>& wake);
  // Returns why the caller may not take the route, or nothing.
  std::optional<ApiError> Admit(const Route& route, const HttpRequest& request) const;
  // The salt of who asks.
  std::string TenantOf(const HttpRequest& request) const;

  HttpReply Health() const;
  HttpReply Version() const;
  HttpReply Models() const;
  HttpReply DescribeModel(const std::string& rest) const;  // of the path
  HttpReply Kv() const;
  HttpReply Metrics() const;
  HttpReply ResetPrefixes() const;
  HttpReply Tokenize(const Json& body) const;
  HttpReply Detokenize(const Json& body) const;

  ServedModel model_;
  ApiAccess access_;
  ServerCounters counters_;
  std::atomic<bool> draining_ = false;
};

}  // namespace swiftkv
