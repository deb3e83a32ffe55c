// SPDX-License-Identifier: Apache-2.0
// Assembles bytes that arrive in pieces into whole UTF-8 characters.
//
// A token may end in the middle of a character, so text is held back until the character is
// complete. Bytes that can never become one are replaced by U+FFFD, one for each maximal
// well-formed start (Unicode 15, section 3.9, "U+FFFD substitution of maximal subparts"), so the
// joined output does not depend on how the bytes were cut.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace swiftkv {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

class Utf8Assembler {
 public:
  // Takes bytes and returns the characters that they complete; never a part of one.
  std::string Feed(std::string_view bytes);

  // Ends the text: returns U+FFFD when a character was cut, else nothing. The assembler is then as
  // new.
  std::string Finish();

  // Bytes held back, [0, 3].
  std::size_t pending_bytes() const { return pending_.size(); }

 private:
  std::string pending_;  // a well-formed start of one character
};

// Returns `bytes` with every ill-formed part replaced; the same text as feeding it in any pieces
// and finishing.
std::string ToValidUtf8(std::string_view bytes);

// Returns how many bytes at the front are whole well-formed characters: no overlong forms,
// surrogates or values above U+10FFFF.
std::size_t ValidUtf8Prefix(std::string_view bytes);

// Says whether all of `bytes` is well-formed UTF-8.
bool IsValidUtf8(std::string_view bytes);

}  // namespace swiftkv
