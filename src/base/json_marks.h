// SPDX-License-Identifier: Apache-2.0
// Walks over the brackets, braces and commas of JSON text without parsing it.
//
// For bounds that must hold before a parser that recurses sees text from outside.
#pragma once

#include <cstddef>
#include <string_view>

namespace swiftkv {

// Calls `visit` with each of `[`, `]`, `{`, `}` and `,` outside of strings, in order, until it
// returns false. The text need not be well-formed.
template <typename Visitor>
void ForEachJsonMark(std::string_view text, Visitor&& visit) {
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == ']' || c == '{' || c == '}' || c == ',') {
      if (!visit(c)) return;
    }
  }
}

}  // namespace swiftkv
