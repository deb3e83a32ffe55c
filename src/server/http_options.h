// SPDX-License-Identifier: Apache-2.0
// Holds where the server listens and what one client may take of it. Layer: server.
#pragma once

#include <string>
#include <vector>

#include "engine/option_field.h"

namespace swiftkv {

struct HttpOptions {
  std::string host = "127.0.0.1";  // an IP address, or localhost
  int port = 8080;                 // 0: any that is free
  int max_connections = 1024;      // more are closed at once

  int header_bytes = 32 << 10;  // request line and headers together
  int body_bytes = 32 << 20;
  int header_seconds = 15;  // from the first byte of a request to the end of its headers
  int body_seconds = 60;    // to the end of its body
  int idle_seconds = 120;   // between requests of one connection
  int write_seconds = 60;   // that a client may take to read what fills its socket
  int drain_seconds = 30;   // after the signal to stop, until replies under way are cut short

  std::vector<int> stop_signals = {};  // the first drains, a second one cuts replies short
};

template <typename Visitor>
void VisitOptions(Visitor&& visit, HttpOptions& options) {
  visit(OptionField{"--host", "host", "ADDRESS",
                    "IP address to listen on; 0.0.0.0 lets other machines in"},
        options.host);
  visit(OptionField{"--port", "port", "PORT", "TCP port; 0: any that is free", 0, 65535},
        options.port);
  visit(OptionField{"--max-connections", "max_connections", "N",
                    "Connections open at once; more are closed at once", 1, 65536},
        options.max_connections);
  visit(
      OptionField{"--max-body", "max_body", "BYTES", "Largest body of a request", 1 << 10, 1 << 30},
      options.body_bytes);
  visit(OptionField{"--header-timeout", "header_timeout", "SECONDS",
                    "Time that a request's headers may take to arrive", 1, 3600},
        options.header_seconds);
  visit(OptionField{"--body-timeout", "body_timeout", "SECONDS",
                    "Time that a request's body may take to arrive", 1, 3600},
        options.body_seconds);
  visit(OptionField{"--idle-timeout", "idle_timeout", "SECONDS",
                    "Time that a connection stays open between requests", 1, 86400},
        options.idle_seconds);
  visit(OptionField{"--write-timeout", "write_timeout", "SECONDS",
                    "Time that a client may leave what was sent unread before it is dropped", 1,
                    3600},
        options.write_seconds);
  visit(OptionField{"--drain-timeout", "drain_timeout", "SECONDS",
                    "Time that replies under way get to end once the server was told to stop", 0,
                    3600},
        options.drain_seconds);
}

}  // namespace swiftkv
