// SPDX-License-Identifier: Apache-2.0
// Reads typed fields of a JSON object; the first field at fault makes the error.
//
// A field that is absent or null leaves its value as it was. Nothing is converted: "10" is no
// number and 1.5 no whole one. After an error every read does nothing, so callers check once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.h"

namespace swiftkv {

class FieldReader {
 public:
  // The object must outlive the reader.
  explicit FieldReader(const Json* object) : object_(object) {}

  // The field, or null where it is absent, null or an error came before.
  const Json* Find(const char* name) const;

  void Boolean(const char* name, bool* value);
  void String(const char* name, std::string* value);
  // Both ends of the range included.
  void Integer(const char* name, std::int64_t least, std::int64_t most, std::int64_t* value);
  void Integer(const char* name, std::int64_t least, std::int64_t most, int* value);
  void Number(const char* name, double least, double most, float* value);
  // A text or a list of at most `most` texts, none empty.
  void Strings(const char* name, std::size_t most, std::vector<std::string>* values);
  // A list of at most `most` token ids in [0, vocabulary_size).
  void Tokens(const char* name, std::size_t most, int vocabulary_size,
              std::vector<std::int32_t>* values);

  void Fail(const char* name, const std::string& message);
  void Fail(ApiError error);
  bool ok() const { return !error_; }
  const ApiError& error() const { return *error_; }

 private:
  const Json* object_;
  std::optional<ApiError> error_;
};

// Returns the value as messages show it: short and on one line.
std::string Shown(const Json& value);

// Returns the token ids of a list, or a sentence on what is wrong in `*problem`.
std::vector<std::int32_t> ReadTokens(const Json& list, int vocabulary_size, std::string* problem);

}  // namespace swiftkv
