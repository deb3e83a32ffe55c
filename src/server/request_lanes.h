// SPDX-License-Identifier: Apache-2.0
// Has requests read on threads of its own: parsing, templates, tokens and grammars of a long body
// take longer than a stream may wait.
//
// Owner: the server's thread. A lane is a few threads and a bounded queue in front of them. Long
// bodies have a lane of their own, so that short requests do not stand behind them, and one thread,
// so that what their JSON takes while it is read is taken once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "server/api.h"
#include "server/http_message.h"

namespace swiftkv {

// One request on its way. Shared by the server's thread and the lane's; `stage_` says whose the
// rest is: the lane's while it runs, else the server's.
class RequestErrand {
 public:
  explicit RequestErrand(HttpRequest request) : request_(std::move(request)) {}

  // The server's side.
  bool done() const { return stage_ == Stage::kDone; }
  // Nobody waits for the outcome. A request that no thread has begun is forgotten at once.
  void Abandon();
  // Once done.
  ApiOutcome TakeOutcome() { return std::move(outcome_); }

  // The lane's side: does nothing where it was abandoned. `wake` is the generation's, and is called
  // once it is done.
  void Run(Api* api, const std::function<void()>& wake);

 private:
  enum class Stage : std::uint8_t { kWaits, kRuns, kDone, kAbandoned };

  std::atomic<Stage> stage_ = Stage::kWaits;
  HttpRequest request_;
  ApiOutcome outcome_;
};

class RequestLanes {
 public:
  // The API must outlive the lanes.
  explicit RequestLanes(Api* api);
  ~RequestLanes();  // Stop
  RequestLanes(const RequestLanes&) = delete;
  RequestLanes& operator=(const RequestLanes&) = delete;

  // Has the API handle the request; `wake` is called on any thread, once it is done and for what
  // comes of it. Returns null where too many wait already.
  std::shared_ptr<RequestErrand> Send(HttpRequest request, const std::function<void()>& wake);

  // Begins no more and waits for those that run.
  void Stop();

 private:
  struct Lane;

  Api* api_;
  std::unique_ptr<Lane> short_bodies_;
  std::unique_ptr<Lane> long_bodies_;
};

}  // namespace swiftkv
