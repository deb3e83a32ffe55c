// SPDX-License-Identifier: Apache-2.0
// Words a JSON value for an error message.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace swiftkv {

// Returns at most 60 printable characters of a string, number, boolean or null as JSON writes it;
// of an array or object only what it is: foreign ones may be nested deeper than the stack.
std::string JsonExcerpt(const nlohmann::json& value);

}  // namespace swiftkv
