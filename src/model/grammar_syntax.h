// SPDX-License-Identifier: Apache-2.0
// Checks GBNF before libllama parses it. Layer: model.
//
// The library prints what it dislikes to stderr, recurses as deep as the text nests, and never
// returns from a repetition whose bounds are the wrong way round. So a grammar from a request is
// checked here first, with the same syntax and with bounds; the message names the line.
#pragma once

#include <string_view>

#include "model/vocabulary.h"
#include "swiftkv/status.h"

namespace swiftkv {

inline constexpr int kMaxGrammarNesting = 100;       // parentheses within parentheses
inline constexpr int kMaxGrammarRepetitions = 2000;  // of one item, nested ones multiplied

// Errors: InvalidArgument with line and reason, for bad syntax, a rule without a definition, no
// rule `root`, or a token that `vocabulary` does not have. Left recursion is the library's to find.
Status CheckGrammarSyntax(std::string_view grammar, const Vocabulary& vocabulary);

}  // namespace swiftkv
