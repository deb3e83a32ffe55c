// SPDX-License-Identifier: Apache-2.0
// Writes errors as JSON and maps status codes to HTTP.
#include "server/api_error.h"

namespace swiftkv {
namespace {

// A message may quote what a client sent; a reply need not carry megabytes of it back.
constexpr std::size_t kMessageBytes = 2000;

}  // namespace

std::string WriteJson(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json ErrorJson(const ApiError& error) {
  return {{"error",
           {{"message", error.message.substr(0, kMessageBytes)},
            {"type", error.type},
            {"param", error.param.empty() ? Json() : Json(error.param)},
            {"code", error.code.empty() ? Json() : Json(error.code)}}}};
}

HttpReply ErrorReply(const ApiError& error) {
  HttpReply reply;
  reply.status = error.http_status;
  reply.body = WriteJson(ErrorJson(error));
  if (error.http_status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.http_status == 429 || error.http_status == 503) {
    reply.headers.emplace_back("Retry-After", "1");
  }
  return reply;
}

ApiError ErrorOf(const Status& status, const std::string& param) {
  ApiError error{.message = status.message(), .param = param};
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return error;
    case StatusCode::kNotFound:
      error.http_status = 404;
      return error;
    case StatusCode::kResourceExhausted:
      error.http_status = 429;
      error.type = "rate_limit_error";
      error.code = "rate_limit_exceeded";
      return error;
    case StatusCode::kCancelled:
      error.http_status = 503;
      error.type = "service_unavailable_error";
      error.code = "service_unavailable";
      return error;
    case StatusCode::kOk:
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      break;
  }
  error.http_status = 500;
  error.type = "server_error";
  return error;
}

}  // namespace swiftkv
