// SPDX-License-Identifier: Apache-2.0
// Reads and writes amounts of memory; every byte below 2^53 is kept exactly.
#include "base/byte_size.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace swiftkv {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double bytes;
};

constexpr double kKibi = 1024.0;
constexpr std::array<Unit, 14> kUnits = {{
    {"", 1.0},
    {"b", 1.0},
    {"k", kKibi},
    {"kib", kKibi},
    {"m", kKibi* kKibi},
    {"mib", kKibi* kKibi},
    {"g", kKibi* kKibi* kKibi},
    {"gib", kKibi* kKibi* kKibi},
    {"t", kKibi* kKibi* kKibi* kKibi},
    {"tib", kKibi* kKibi* kKibi* kKibi},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
}};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

Status NotASize(std::string_view text) {
  return Status::InvalidArgument(
      fmt::format("a size is a number and an optional unit, such as 512MiB, 4G or 1073741824, and "
                  "below 2^63 bytes, not: \"{}\"",
                  text));
}

}  // namespace

Result<std::uint64_t> ParseByteSize(std::string_view text) {
  const char* const end = text.data() + text.size();
  if (text.empty() || text.front() < '0' || text.front() > '9') return NotASize(text);
  double number = 0;
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (parsed.ec != std::errc()) return NotASize(text);
  std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  if (unit.size() > 1 && unit.front() == ' ') unit.remove_prefix(1);
  const std::string lower = Lower(unit);
  for (const Unit& known : kUnits) {
    if (lower != known.name) continue;
    const double bytes = std::floor(number * known.bytes);
    if (!(bytes < 0x1p63)) return NotASize(text);
    return static_cast<std::uint64_t>(bytes);
  }
  return NotASize(text);
}

std::string FormatByteSize(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= 1023.5 && unit + 1 < kNames.size()) {
    number /= kKibi;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", number, decimals, kNames[unit]);
}

}  // namespace swiftkv
