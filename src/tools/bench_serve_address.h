// SPDX-License-Identifier: Apache-2.0
// Reads the URL of a server that `bench serve` loads.
#pragma once

#include <string>

#include "swiftkv/status.h"

namespace swiftkv {

struct ServeAddress {
  std::string host;  // a name or an IP address, without brackets
  std::string port;
  std::string base_path;  // before "/v1/..."; empty or begins with '/', never ends with it

  // Returns what a Host header holds.
  std::string Authority() const;
};

// Reads http://HOST[:PORT][/PATH]; a "/v1" at the end is dropped, because clients' base URLs have
// it. Errors: Unsupported for https, InvalidArgument for anything else.
Result<ServeAddress> ParseServeUrl(const std::string& url);

}  // namespace swiftkv
