// SPDX-License-Identifier: Apache-2.0
// Carries one HTTP request and one whole reply as plain data, free of any HTTP library.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace swiftkv {

struct HttpRequest {
  std::string method;         // "GET"
  std::string path;           // without query; as sent, may hold any bytes
  std::string authorization;  // value of the header, empty where there is none
  std::string body;           // any bytes
  bool from_loopback = false;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
};

}  // namespace swiftkv
