// SPDX-License-Identifier: Apache-2.0
// Counts in one pass over the text, then lets the library parse it without exceptions.
#include "server/json_body.h"

#include <fmt/format.h>

#include <array>

#include "base/status_macros.h"

namespace swiftkv {
namespace {

// Walks over the text once, at most as far as a parser would come, and counts what it would build.
// What is in strings does not count.
Status CheckBounds(std::string_view text) {
  struct Level {
    bool is_object = false;
    std::size_t parts = 1;
  };
  std::array<Level, kMaxJsonDepth> levels;
  std::size_t depth = 0;
  std::size_t elements = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (depth == levels.size()) {
        return Status::InvalidArgument(
            fmt::format("the body may nest arrays and objects {} deep, not deeper", kMaxJsonDepth));
      }
      levels[depth++] = {.is_object = c == '{'};
      ++elements;
    } else if (c == ']' || c == '}') {
      if (depth > 0) --depth;
    } else if (c == ',' && depth > 0) {
      Level& level = levels[depth - 1];
      ++elements;
      if (++level.parts > kMaxJsonMembers && level.is_object) {
        return Status::InvalidArgument(
            fmt::format("an object may have {} members, not more", kMaxJsonMembers));
      }
    }
    if (elements > kMaxJsonElements) {
      return Status::InvalidArgument(fmt::format(
          "the body may have {} members and elements in all, not more", kMaxJsonElements));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<Json> ParseJsonBody(std::string_view body) {
  SKV_RETURN_IF_ERROR(CheckBounds(body));
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
