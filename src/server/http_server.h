// SPDX-License-Identifier: Apache-2.0
// Listens, serves connections on the calling thread, and drains when told to stop.
//
// One thread runs every connection as a coroutine; the engine's thread only posts to it. So nothing
// here is locked, an idle connection costs no thread, and a client that leaves is noticed at once.
#pragma once

#include <memory>

#include "server/api.h"
#include "server/http_options.h"
#include "swiftkv/status.h"

namespace swiftkv {

class HttpServer {
 public:
  // Opens the socket; connections wait until Run. The API must outlive the server. Errors:
  // InvalidArgument for a host that is no address, Internal where the system refuses.
  static Result<std::unique_ptr<HttpServer>> Listen(const HttpOptions& options, Api* api);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;  // that it listens on

  // Serves until it is told to stop; then takes no new work, lets replies under way end within
  // drain_seconds, and ends the engine.
  void Run();

  // As a stop signal. Any thread.
  void Stop();

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace swiftkv
