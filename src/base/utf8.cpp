// SPDX-License-Identifier: Apache-2.0
// Assembles bytes into characters with the table of well-formed sequences of the Unicode standard
// (table 3-7).
#include "base/utf8.h"

#include <cstdint>
#include <utility>

namespace swiftkv {
namespace {

// What may come after a lead byte. `length` 0 marks a byte that cannot lead.
struct LeadByte {
  int length = 0;               // bytes of the whole character
  std::uint8_t second_min = 0;  // range of the second byte; later ones are 80..BF
  std::uint8_t second_max = 0;
};

LeadByte Classify(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

struct Scan {
  std::size_t bytes = 0;  // read from the start
  bool complete = false;  // they are one character
  bool cut = false;       // they are a well-formed start that ends with the text
};

// Reads one character, or the maximal start of one, from non-empty `text`.
Scan ScanCharacter(std::string_view text) {
  const LeadByte lead = Classify(static_cast<std::uint8_t>(text[0]));
  if (lead.length == 0) return {1, false, false};
  std::size_t read = 1;
  while (read < static_cast<std::size_t>(lead.length)) {
    if (read == text.size()) return {read, false, true};
    const auto byte = static_cast<std::uint8_t>(text[read]);
    const std::uint8_t min = read == 1 ? lead.second_min : 0x80;
    const std::uint8_t max = read == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {read, false, false};
    ++read;
  }
  return {read, true, false};
}

}  // namespace

std::string Utf8Assembler::Feed(std::string_view bytes) {
  std::string joined;
  std::string_view rest = bytes;
  if (!pending_.empty()) {
    joined = std::move(pending_);
    joined.append(bytes);
    rest = joined;
    pending_.clear();
  }
  std::string out;
  out.reserve(rest.size());
  while (!rest.empty()) {
    const Scan scan = ScanCharacter(rest);
    if (scan.cut) {
      pending_ = rest;
      break;
    }
    out.append(scan.complete ? rest.substr(0, scan.bytes) : kReplacementCharacter);
    rest.remove_prefix(scan.bytes);
  }
  return out;
}

std::string Utf8Assembler::Finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

std::string ToValidUtf8(std::string_view bytes) {
  Utf8Assembler assembler;
  std::string text = assembler.Feed(bytes);
  text += assembler.Finish();
  return text;
}

std::size_t ValidUtf8Prefix(std::string_view bytes) {
  std::size_t valid = 0;
  while (valid < bytes.size()) {
    const Scan scan = ScanCharacter(bytes.substr(valid));
    if (!scan.complete) break;
    valid += scan.bytes;
  }
  return valid;
}

bool IsValidUtf8(std::string_view bytes) { return ValidUtf8Prefix(bytes) == bytes.size(); }

}  // namespace swiftkv
