// SPDX-License-Identifier: Apache-2.0
// Joins two GBNF grammars into one that allows what either of them allows. Layer: model.
#pragma once

#include <string>
#include <string_view>

namespace swiftkv {

// Returns a grammar whose text is one of `first` or one of `second`. Both have a rule `root`; names
// may be in both, rules of `second` get a beginning of their own. Only the places of names are
// looked at: whether the text is a grammar is checked elsewhere (grammar_syntax.h).
std::string EitherGrammar(std::string_view first, std::string_view second);

}  // namespace swiftkv
