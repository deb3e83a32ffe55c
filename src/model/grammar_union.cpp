// SPDX-License-Identifier: Apache-2.0
// Renames rules, passing over texts, sets of characters, counts and comments.
#include "model/grammar_union.h"

#include <cstddef>

namespace swiftkv {
namespace {

bool IsOfName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

// Returns what ends a piece that begins with `c` and holds no names; 0: it begins none.
char EndOfPiece(char c) {
  switch (c) {
    case '"':
      return '"';
    case '[':
      return ']';
    case '{':
      return '}';
    case '<':
      return '>';
    case '#':
      return '\n';
    default:
      return 0;
  }
}

// Returns the position behind the piece that begins at `begin`.
std::size_t BehindPiece(std::string_view grammar, std::size_t begin) {
  const char end = EndOfPiece(grammar[begin]);
  std::size_t at = begin + 1;
  while (at < grammar.size() && grammar[at] != end) {
    const bool escapes = grammar[at] == '\\' && end != '\n';
    at += escapes ? 2 : 1;
  }
  return at < grammar.size() ? at + 1 : grammar.size();
}

std::string WithPrefix(std::string_view grammar, std::string_view prefix) {
  std::string renamed;
  for (std::size_t i = 0; i < grammar.size();) {
    const std::size_t begin = i;
    if (EndOfPiece(grammar[i]) != 0) {
      i = BehindPiece(grammar, begin);
    } else if (IsOfName(grammar[i])) {
      while (i < grammar.size() && IsOfName(grammar[i])) ++i;
      renamed += prefix;
    } else {
      ++i;
    }
    renamed += grammar.substr(begin, i - begin);
  }
  return renamed;
}

}  // namespace

std::string EitherGrammar(std::string_view first, std::string_view second) {
  return "root ::= first-root | second-root\n" + WithPrefix(first, "first-") + "\n" +
         WithPrefix(second, "second-") + "\n";
}

}  // namespace swiftkv
