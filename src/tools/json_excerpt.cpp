// SPDX-License-Identifier: Apache-2.0
// Implements the excerpt.
#include "tools/json_excerpt.h"

#include <nlohmann/json.hpp>

#include "tools/printable_text.h"

namespace swiftkv {

std::string JsonExcerpt(const nlohmann::json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return PrintableExcerpt(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60);
}

}  // namespace swiftkv
