// SPDX-License-Identifier: Apache-2.0
// Calls llama.cpp's converter; its JSON types stay in this file.
#include "model/json_grammar.h"

#include <exception>

#include "base/status_macros.h"
#include "json-schema-to-grammar.h"
#include "json.h"
#include "model/grammar_schema.h"

namespace swiftkv {

Result<std::string> GrammarFromJsonSchema(std::string_view schema) {
  SKV_ASSIGN_OR_RETURN(const std::string checked, SchemaForGrammar(schema));
  try {
    return json_schema_to_grammar(common_json::parse(checked), /*force_gbnf=*/true);
  } catch (const std::exception& error) {
    return Status::InvalidArgument("the JSON schema cannot become a grammar: " +
                                   std::string(error.what()));
  }
}

}  // namespace swiftkv
