// SPDX-License-Identifier: Apache-2.0
// Sends HTTP requests to one server, any number at once, and reads streams of events as they come.
//
// Owner: one thread, on which every callback runs, inside Run or Ask. A call always ends with
// exactly one reply, whatever the server does. Connections are kept and used again; one that the
// server had closed meanwhile is replaced without a word.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "swiftkv/status.h"
#include "tools/bench_serve_address.h"

namespace swiftkv {

using ServeClock = std::chrono::steady_clock;

struct HttpCall {
  bool post = true;       // else GET
  std::string path = {};  // behind the base path of the address, e.g. "/v1/models"
  std::string body = {};  // JSON
  ServeClock::duration timeout = std::chrono::seconds(600);  // from sending to the last byte
  // Closes the connection after so many events; 0: once the request is sent; below 0: never.
  int drop_after_events = -1;
  // Hears the data of each event of a reply of status 200, and when its bytes had come.
  std::function<void(const std::string& data, ServeClock::time_point)> on_event = {};
};

enum class HttpEnd {
  kComplete,   // a whole reply, of any status
  kRefused,    // no connection
  kClosed,     // the connection ended before the reply did
  kTimedOut,   // not whole in time
  kMalformed,  // no HTTP, or an event that never ends
  kDropped,    // closed from here: drop_after_events, or Stop
};

struct ServedReply {
  HttpEnd end = HttpEnd::kComplete;
  int status = 0;                   // 0: no reply began
  std::string body = {};            // its first 64 KiB, up to the first event
  double retry_after_seconds = -1;  // what the header says; below 0: nothing
  std::string detail = {};          // the system's words where it did not complete
};

class ServeClient {
 public:
  // Resolves the address. Errors: NotFound where the host has none.
  static Result<std::unique_ptr<ServeClient>> Open(const ServeAddress& address,
                                                   const std::string& api_key);
  ~ServeClient();
  ServeClient(const ServeClient&) = delete;
  ServeClient& operator=(const ServeClient&) = delete;

  // Starts a call; `done` hears its reply.
  void Send(HttpCall call, std::function<void(ServedReply)> done);

  // Calls `then` at that time, unless Stop comes first.
  void At(ServeClock::time_point time, std::function<void()> then);

  // Runs calls and timers until none is left; `tick` is called about ten times a second.
  void Run(const std::function<void()>& tick = {});

  // Sends one call and returns its reply; others proceed meanwhile.
  ServedReply Ask(HttpCall call, const std::function<void()>& tick = {});

  // Ends all calls, those that are sent later too, as dropped, and forgets all timers.
  void Stop();

 private:
  struct State;
  explicit ServeClient(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace swiftkv
