// SPDX-License-Identifier: Apache-2.0
// Measures nesting in one pass over the text, then lets the library parse it without exceptions.
#include "server/json_body.h"

#include <fmt/format.h>

#include <algorithm>

namespace swiftkv {
namespace {

// The deepest nesting that the text opens. Brackets inside strings do not count.
int NestingDepth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
      if (deepest > kMaxJsonDepth) return deepest;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<Json> ParseJsonBody(std::string_view body) {
  if (NestingDepth(body) > kMaxJsonDepth) {
    return Status::InvalidArgument(
        fmt::format("the body may nest arrays and objects {} deep, not deeper", kMaxJsonDepth));
  }
  Json value = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return Status::InvalidArgument(fmt::format(
        "the body must be one JSON object in UTF-8; these {} bytes are none", body.size()));
  }
  if (!value.is_object()) {
    return Status::InvalidArgument(
        fmt::format("the body must be a JSON object, not: {}", value.type_name()));
  }
  return value;
}

}  // namespace swiftkv
