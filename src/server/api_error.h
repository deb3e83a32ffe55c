// SPDX-License-Identifier: Apache-2.0
// Describes failures as the OpenAI API tells them: status, type, parameter and code.
//
// Texts may hold any bytes that a client sent; what is no UTF-8 is replaced when they are written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "server/http_message.h"
#include "swiftkv/status.h"

namespace swiftkv {

using Json = nlohmann::ordered_json;

struct ApiError {
  int http_status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};  // the field at fault; empty: none
  std::string code = {};   // empty: none
};

// Returns {"error": {"message", "type", "param", "code"}}.
Json ErrorJson(const ApiError& error);
HttpReply ErrorReply(const ApiError& error);

// Translates what lower layers return. `param`: the field that they were given.
ApiError ErrorOf(const Status& status, const std::string& param = "");

// Writes one line; bytes that are no UTF-8 are replaced, so that it never fails.
std::string WriteJson(const Json& value);

}  // namespace swiftkv
