// SPDX-License-Identifier: Apache-2.0
// Turns a JSON schema into a GBNF grammar for SamplerOptions::grammar. Layer: model.
#pragma once

#include <string>
#include <string_view>

#include "swiftkv/status.h"

namespace swiftkv {

// Accepts a schema as JSON text (`{}` allows any JSON value). A pattern that
// cannot become a grammar counts as any string. Errors: InvalidArgument when the text is no JSON,
// exceeds the limits of grammar_schema.h, or uses a keyword that cannot become a grammar, with the
// converter's reason.
Result<std::string> GrammarFromJsonSchema(std::string_view schema);

}  // namespace swiftkv
