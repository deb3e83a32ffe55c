// SPDX-License-Identifier: Apache-2.0
// Collects option fields into a JSON object, for the dump at start.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/option_field.h"
#include "swiftkv/sampler_options.h"
#include "tools/flag_values.h"

namespace swiftkv {

class JsonVisitor {
 public:
  void Group(const char*) {}

  template <typename T>
  void operator()(const OptionField& field, T& value) {
    object_[field.key] = ToJson(value);
  }

  const nlohmann::ordered_json& object() const { return object_; }

 private:
  using Json = nlohmann::ordered_json;

  static Json ToJson(bool value) { return value; }
  static Json ToJson(int value) { return value; }
  // As people write it: 0.95, not the nearest double of the nearest float.
  static Json ToJson(float value) { return Json::parse(FormatFlagValue(value)); }
  static Json ToJson(const std::string& value) { return value; }
  static Json ToJson(const std::vector<std::string>& value) { return value; }
  static Json ToJson(const NumberList& value) { return value.values; }
  static Json ToJson(const NameList& value) { return value.names; }
  static Json ToJson(const MemoryLimit& value) {
    return value.automatic ? Json("auto") : Json(value.bytes);
  }
  static Json ToJson(const std::optional<Quality>& value) {
    return value ? Json(QualityName(*value)) : Json();
  }
  static Json ToJson(const std::vector<LogitBias>& value) { return FormatFlagValue(value); }
  template <typename T>
  static Json ToJson(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
  }

  Json object_ = Json::object();
};

// Returns one line; bytes that are no UTF-8 are replaced.
inline std::string JsonLine(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace swiftkv
