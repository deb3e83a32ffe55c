// SPDX-License-Identifier: Apache-2.0
// Checks types and ranges; every message begins with the field and ends with what it held.
#include "server/field_reader.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace swiftkv {
namespace {

// Whole numbers only, whatever way they are written down in JSON's own integer form.
std::optional<std::int64_t> WholeNumber(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return std::nullopt;
}

}  // namespace

std::string Shown(const Json& value) {
  constexpr std::size_t kMostBytes = 80;
  if (value.is_structured()) {
    return fmt::format("{} of {}", value.type_name(), value.size());
  }
  std::string text = WriteJson(value);
  if (text.size() > kMostBytes) text = text.substr(0, kMostBytes) + "...";
  return text;
}

const Json* FieldReader::Find(const char* name) const {
  if (error_) return nullptr;
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void FieldReader::Fail(const char* name, const std::string& message) {
  Fail(ApiError{.message = fmt::format("{} {}", name, message), .param = name});
}

void FieldReader::Fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void FieldReader::Boolean(const char* name, bool* value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (!field->is_boolean()) return Fail(name, "must be true or false, not: " + Shown(*field));
  *value = field->get<bool>();
}

void FieldReader::String(const char* name, std::string* value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (!field->is_string()) return Fail(name, "must be a string, not: " + Shown(*field));
  *value = field->get<std::string>();
}

void FieldReader::Integer(const char* name, std::int64_t least, std::int64_t most,
                          std::int64_t* value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  const std::optional<std::int64_t> number = WholeNumber(*field);
  if (!number || *number < least || *number > most) {
    return Fail(name, fmt::format("must be a whole number in [{}, {}], not: {}", least, most,
                                  Shown(*field)));
  }
  *value = *number;
}

void FieldReader::Integer(const char* name, std::int64_t least, std::int64_t most, int* value) {
  std::int64_t wide = *value;
  Integer(name, least, most, &wide);
  *value = static_cast<int>(wide);
}

void FieldReader::Number(const char* name, double least, double most, float* value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  const bool fits =
      field->is_number() && field->get<double>() >= least && field->get<double>() <= most;
  if (!fits) {
    return Fail(name,
                fmt::format("must be a number in [{}, {}], not: {}", least, most, Shown(*field)));
  }
  *value = static_cast<float>(field->get<double>());
}

void FieldReader::Strings(const char* name, std::size_t most, std::vector<std::string>* values) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  const Json list = field->is_array() ? *field : Json::array({*field});
  if (list.size() > most) {
    return Fail(name, fmt::format("may hold {} strings, not: {}", most, list.size()));
  }
  for (const Json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
      return Fail(name, "must be a string or a list of strings, none empty, not: " + Shown(text));
    }
    values->push_back(text.get<std::string>());
  }
}

void FieldReader::Tokens(const char* name, std::size_t most, int vocabulary_size,
                         std::vector<std::int32_t>* values) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (!field->is_array() || field->size() > most) {
    return Fail(
        name, fmt::format("must be a list of at most {} token ids, not: {}", most, Shown(*field)));
  }
  std::string problem;
  *values = ReadTokens(*field, vocabulary_size, &problem);
  if (!problem.empty()) Fail(name, problem);
}

std::vector<std::int32_t> ReadTokens(const Json& list, int vocabulary_size, std::string* problem) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(list.size());
  for (const Json& item : list) {
    const std::optional<std::int64_t> id = WholeNumber(item);
    if (!id || *id < 0 || *id >= vocabulary_size) {
      *problem =
          fmt::format("must hold token ids in [0, {}), not: {}", vocabulary_size, Shown(item));
      return {};
    }
    tokens.push_back(static_cast<std::int32_t>(*id));
  }
  return tokens;
}

}  // namespace swiftkv
