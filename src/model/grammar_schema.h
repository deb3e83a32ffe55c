// SPDX-License-Identifier: Apache-2.0
// Checks a JSON schema before the library makes a grammar of it. Layer: model.
//
// The library's converter recurses with the schema, follows references inside allOf as often as it
// meets them, copies a schema for each type of a list of types, and writes rules for all orders of
// an object's optional properties. So a few hundred bytes can ask for years, or for all of the
// stack. What it would do is counted here first.
#pragma once

#include <string>
#include <string_view>

#include "swiftkv/status.h"

namespace swiftkv {

inline constexpr std::size_t kMaxSchemaBytes = 1U << 18;  // of its text
inline constexpr int kMaxSchemaDepth = 48;                // arrays and objects within one another
inline constexpr int kMaxSchemaProperties = 128;          // of one object
inline constexpr int kMaxSchemaReferences = 256;          // $ref, all together

// Returns the schema as text for the converter: without patterns that it would warn of and take any
// string for. Errors: InvalidArgument for text that is no JSON, and for what exceeds the limits.
Result<std::string> SchemaForGrammar(std::string_view schema);

}  // namespace swiftkv
