// SPDX-License-Identifier: Apache-2.0
// Makes text from files and users safe to print in one place of a terminal.
//
// A GGUF's strings and a model's replies can hold anything: line breaks that fake a second message,
// escape sequences that drive the terminal, bytes that are no characters.
#pragma once

#include <string>
#include <string_view>

namespace swiftkv {

// Returns `text` as one line of well-formed UTF-8: control characters as \n, \t or \xNN.
std::string PrintableLine(std::string_view text);

// Returns well-formed `text` without control characters other than line breaks and tabs.
std::string PrintableReply(std::string_view text);

// Returns PrintableLine cut to at most `width` characters, the cut shown as "...".
std::string PrintableExcerpt(std::string_view text, std::size_t width);

}  // namespace swiftkv
