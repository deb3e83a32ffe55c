// SPDX-License-Identifier: Apache-2.0
// Parses the JSON body of a request within bounds of depth.
#pragma once

#include <string_view>

#include "server/api_error.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Arrays and objects within one another, the outermost counted.
inline constexpr int kMaxJsonDepth = 64;

// Returns the object that `body` holds. Errors: InvalidArgument for nesting beyond kMaxJsonDepth,
// found before anything is parsed; for what is no JSON or no UTF-8; for anything but an object.
Result<Json> ParseJsonBody(std::string_view body);

}  // namespace swiftkv
