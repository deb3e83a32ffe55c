// SPDX-License-Identifier: Apache-2.0
// Calls llama.cpp's converter; its JSON types stay in this file.
#include "model/json_grammar.h"

#include <algorithm>
#include <exception>

#include "json-schema-to-grammar.h"
#include "json.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMaxSchemaBytes = 1U << 20;
// Parser and converter recurse with the nesting of the text.
constexpr int kMaxSchemaNesting = 200;

// Returns the deepest nesting of brackets and braces, those in strings counted too.
int DeepestNesting(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if (c == '}' || c == ']') --depth;
  }
  return deepest;
}

}  // namespace

Result<std::string> GrammarFromJsonSchema(std::string_view schema) {
  if (schema.size() > kMaxSchemaBytes) {
    return Status::InvalidArgument("a JSON schema may have at most " +
                                   std::to_string(kMaxSchemaBytes) + " bytes, not " +
                                   std::to_string(schema.size()));
  }
  if (const int nesting = DeepestNesting(schema); nesting > kMaxSchemaNesting) {
    return Status::InvalidArgument("a JSON schema may nest " + std::to_string(kMaxSchemaNesting) +
                                   " deep, not " + std::to_string(nesting));
  }
  try {
    return json_schema_to_grammar(common_json::parse(std::string(schema)), /*force_gbnf=*/true);
  } catch (const std::exception& error) {
    return Status::InvalidArgument("the JSON schema cannot become a grammar: " +
                                   std::string(error.what()));
  }
}

}  // namespace swiftkv
