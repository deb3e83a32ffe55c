// SPDX-License-Identifier: Apache-2.0
// Reads metadata values of a GGUF file with their types checked.
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/status_macros.h"
#include "gguf.h"
#include "model/gguf_file.h"
#include "model/gguf_scan.h"

namespace swiftkv {
namespace {

// Returns element `i` of a block of values of a whole-number or boolean type, nothing for others.
std::optional<std::int64_t> IntAt(gguf_type type, const void* data, std::size_t i) {
  switch (type) {
    case GGUF_TYPE_UINT8:
      return static_cast<const std::uint8_t*>(data)[i];
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL:
      return static_cast<const std::int8_t*>(data)[i];
    case GGUF_TYPE_UINT16:
      return static_cast<const std::uint16_t*>(data)[i];
    case GGUF_TYPE_INT16:
      return static_cast<const std::int16_t*>(data)[i];
    case GGUF_TYPE_UINT32:
      return static_cast<const std::uint32_t*>(data)[i];
    case GGUF_TYPE_INT32:
      return static_cast<const std::int32_t*>(data)[i];
    case GGUF_TYPE_INT64:
      return static_cast<const std::int64_t*>(data)[i];
    case GGUF_TYPE_UINT64: {
      const std::uint64_t value = static_cast<const std::uint64_t*>(data)[i];
      return value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                 ? std::numeric_limits<std::int64_t>::max()
                 : static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

std::optional<double> FloatOf(const gguf_context* context, std::int64_t id) {
  const gguf_type type = gguf_get_kv_type(context, id);
  if (type == GGUF_TYPE_FLOAT32) return gguf_get_val_f32(context, id);
  if (type == GGUF_TYPE_FLOAT64) return gguf_get_val_f64(context, id);
  return std::nullopt;
}

bool IsScalar(gguf_type type) { return type != GGUF_TYPE_ARRAY && type != GGUF_TYPE_STRING; }

}  // namespace

std::int64_t GgufFile::FindKey(const std::string& key) const {
  return gguf_find_key(contexts_.front(), key.c_str());
}

bool GgufFile::Has(const std::string& key) const { return FindKey(key) >= 0; }

std::vector<std::string> GgufFile::Keys() const {
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < gguf_get_n_kv(contexts_.front()); ++i) {
    keys.emplace_back(gguf_get_key(contexts_.front(), i));
  }
  return keys;
}

std::string GgufFile::ValueText(const std::string& key) const {
  const gguf_context* context = contexts_.front();
  const std::int64_t id = FindKey(key);
  if (id < 0) return "";
  const gguf_type type = gguf_get_kv_type(context, id);
  if (type == GGUF_TYPE_ARRAY) {
    return std::string(gguf_type_name(gguf_get_arr_type(context, id))) + "[" +
           std::to_string(gguf_get_arr_n(context, id)) + "]";
  }
  if (type == GGUF_TYPE_STRING) return gguf_get_val_str(context, id);
  if (type == GGUF_TYPE_BOOL) return gguf_get_val_bool(context, id) ? "true" : "false";
  if (const auto number = FloatOf(context, id)) return NumberText(*number);
  return std::to_string(*IntAt(type, gguf_get_val_data(context, id), 0));
}

Status GgufFile::WrongType(const std::string& key, const char* expected) const {
  const gguf_context* context = contexts_.front();
  const std::int64_t id = FindKey(key);
  std::string found = gguf_type_name(gguf_get_kv_type(context, id));
  if (gguf_get_kv_type(context, id) == GGUF_TYPE_ARRAY) {
    found = std::string("an array of ") + gguf_type_name(gguf_get_arr_type(context, id));
  }
  return Damaged("key '" + key + "' must be " + expected + "; it is " + found);
}

Result<std::optional<std::int64_t>> GgufFile::FindInt(const std::string& key,
                                                      IntRange range) const {
  const std::int64_t id = FindKey(key);
  if (id < 0) return std::optional<std::int64_t>();
  const gguf_type type = gguf_get_kv_type(contexts_.front(), id);
  if (!IsScalar(type) || type == GGUF_TYPE_BOOL) return WrongType(key, "a whole number");
  const auto value = IntAt(type, gguf_get_val_data(contexts_.front(), id), 0);
  if (!value) return WrongType(key, "a whole number");
  if (*value < range.min || *value > range.max) {
    return Damaged("key '" + key + "' must lie in [" + std::to_string(range.min) + ", " +
                   std::to_string(range.max) + "], not " + std::to_string(*value));
  }
  return value;
}

Result<std::optional<double>> GgufFile::FindNumber(const std::string& key) const {
  const std::int64_t id = FindKey(key);
  if (id < 0) return std::optional<double>();
  const gguf_type type = gguf_get_kv_type(contexts_.front(), id);
  std::optional<double> value = FloatOf(contexts_.front(), id);
  if (!value && IsScalar(type) && type != GGUF_TYPE_BOOL) {
    value = static_cast<double>(*IntAt(type, gguf_get_val_data(contexts_.front(), id), 0));
  }
  if (!value) return WrongType(key, "a number");
  if (!std::isfinite(*value)) {
    return Damaged("key '" + key + "' must be a finite number, not " + NumberText(*value));
  }
  return value;
}

Result<std::optional<bool>> GgufFile::FindBool(const std::string& key) const {
  const std::int64_t id = FindKey(key);
  if (id < 0) return std::optional<bool>();
  if (gguf_get_kv_type(contexts_.front(), id) != GGUF_TYPE_BOOL) return WrongType(key, "a bool");
  return std::optional<bool>(gguf_get_val_bool(contexts_.front(), id));
}

Result<std::optional<std::string>> GgufFile::FindString(const std::string& key) const {
  const std::int64_t id = FindKey(key);
  if (id < 0) return std::optional<std::string>();
  if (gguf_get_kv_type(contexts_.front(), id) != GGUF_TYPE_STRING) {
    return WrongType(key, "a string");
  }
  return std::optional<std::string>(gguf_get_val_str(contexts_.front(), id));
}

Result<std::optional<std::vector<std::int64_t>>> GgufFile::FindInts(const std::string& key,
                                                                    IntRange range) const {
  const std::int64_t id = FindKey(key);
  if (id < 0) return std::optional<std::vector<std::int64_t>>();
  const gguf_context* context = contexts_.front();
  std::vector<std::int64_t> values;
  if (gguf_get_kv_type(context, id) != GGUF_TYPE_ARRAY) {
    SKV_ASSIGN_OR_RETURN(const auto value, FindInt(key, range));
    values.push_back(*value);
    return std::optional(std::move(values));
  }
  const gguf_type type = gguf_get_arr_type(context, id);
  const std::size_t length = gguf_get_arr_n(context, id);
  for (std::size_t i = 0; i < length; ++i) {
    if (type == GGUF_TYPE_STRING) return WrongType(key, "an array of whole numbers");
    const auto value = IntAt(type, gguf_get_arr_data(context, id), i);
    if (!value) return WrongType(key, "an array of whole numbers");
    if (*value < range.min || *value > range.max) {
      return Damaged("element " + std::to_string(i) + " of key '" + key + "' must lie in [" +
                     std::to_string(range.min) + ", " + std::to_string(range.max) + "], not " +
                     std::to_string(*value));
    }
    values.push_back(*value);
  }
  return std::optional(std::move(values));
}

Result<std::optional<std::uint64_t>> GgufFile::FindArrayLength(const std::string& key) const {
  const std::int64_t id = FindKey(key);
  if (id < 0) return std::optional<std::uint64_t>();
  if (gguf_get_kv_type(contexts_.front(), id) != GGUF_TYPE_ARRAY) {
    return WrongType(key, "an array");
  }
  return std::optional<std::uint64_t>(gguf_get_arr_n(contexts_.front(), id));
}

Result<std::optional<std::uint64_t>> GgufFile::FindStringCount(const std::string& key) const {
  const std::int64_t id = FindKey(key);
  if (id < 0) return std::optional<std::uint64_t>();
  const gguf_context* context = contexts_.front();
  if (gguf_get_kv_type(context, id) != GGUF_TYPE_ARRAY ||
      gguf_get_arr_type(context, id) != GGUF_TYPE_STRING) {
    return WrongType(key, "an array of strings");
  }
  return std::optional<std::uint64_t>(gguf_get_arr_n(context, id));
}

Result<std::int64_t> GgufFile::RequireInt(const std::string& key, IntRange range) const {
  SKV_ASSIGN_OR_RETURN(const auto value, FindInt(key, range));
  if (!value) return Damaged("the metadata lack the key '" + key + "'");
  return *value;
}

Result<double> GgufFile::RequireNumber(const std::string& key) const {
  SKV_ASSIGN_OR_RETURN(const auto value, FindNumber(key));
  if (!value) return Damaged("the metadata lack the key '" + key + "'");
  return *value;
}

Result<std::string> GgufFile::RequireString(const std::string& key) const {
  SKV_ASSIGN_OR_RETURN(const auto value, FindString(key));
  if (!value) return Damaged("the metadata lack the key '" + key + "'");
  return *value;
}

}  // namespace swiftkv
