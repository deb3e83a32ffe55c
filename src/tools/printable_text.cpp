// SPDX-License-Identifier: Apache-2.0
// Escapes or drops control characters: C0, DEL and C1 (U+0080 to U+009F).
#include "tools/printable_text.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace swiftkv {
namespace {

// Returns the bytes of the control character that starts at `position`, or 0.
std::size_t ControlLength(std::string_view text, std::size_t position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x20 || byte == 0x7F) return 1;
  if (byte != 0xC2 || position + 1 >= text.size()) return 0;
  return static_cast<unsigned char>(text[position + 1]) < 0xA0 ? 2 : 0;
}

std::string Escaped(char control) {
  if (control == '\n') return "\\n";
  if (control == '\t') return "\\t";
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(control));
}

}  // namespace

std::string PrintableLine(std::string_view text) {
  const std::string valid = ToValidUtf8(text);
  std::string line;
  for (std::size_t at = 0; at < valid.size();) {
    const std::size_t length = ControlLength(valid, at);
    if (length == 0) {
      line += valid[at++];
      continue;
    }
    line += Escaped(valid[at + length - 1]);
    at += length;
  }
  return line;
}

std::string PrintableReply(std::string_view text) {
  std::string reply;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = ControlLength(text, at);
    if (length == 0 || text[at] == '\n' || text[at] == '\t') {
      reply += text[at++];
    } else {
      at += length;
    }
  }
  return reply;
}

std::string PrintableExcerpt(std::string_view text, std::size_t width) {
  std::string line = PrintableLine(text);
  std::size_t characters = 0;
  std::size_t cut = line.size();
  for (std::size_t at = 0; at < line.size(); ++at) {
    if ((static_cast<unsigned char>(line[at]) & 0xC0) == 0x80) continue;
    ++characters;
    if (characters + 3 == width + 1) cut = at;
    if (characters > width) return line.substr(0, cut) + "...";
  }
  return line;
}

}  // namespace swiftkv
