// SPDX-License-Identifier: Apache-2.0
// Parses the JSON body of a request within bounds of depth and size.
#pragma once

#include <string_view>

#include "server/api_error.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Arrays and objects within one another, the outermost counted.
inline constexpr int kMaxJsonDepth = 64;
// Members of one object: each name is looked for among those before it.
inline constexpr std::size_t kMaxJsonMembers = 1024;
// Members and elements of all objects and lists together: a parsed one takes a hundred bytes.
inline constexpr std::size_t kMaxJsonElements = std::size_t{1} << 20;

// Returns the object that `body` holds. Errors: InvalidArgument for what is beyond these bounds,
// found before anything is parsed; for what is no JSON or no UTF-8; for anything but an object.
Result<Json> ParseJsonBody(std::string_view body);

}  // namespace swiftkv
