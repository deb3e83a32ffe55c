// SPDX-License-Identifier: Apache-2.0
// Parses smaps: a line of addresses begins a mapping, lines of "Name: value" follow it.
#include "base/process_mappings.h"

#include <array>
#include <optional>

#include "base/kernel_text.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

struct Figure {
  const char* name;
  std::uint64_t ProcessMapping::*value;
};
constexpr std::array<Figure, 5> kFigures = {{
    {"Rss:", &ProcessMapping::resident_bytes},
    {"Pss:", &ProcessMapping::proportional_bytes},
    {"Private_Dirty:", &ProcessMapping::private_dirty_bytes},
    {"AnonHugePages:", &ProcessMapping::huge_page_bytes},
    {"Swap:", &ProcessMapping::swap_bytes},
}};

// Reads "7f10eea00000-7f1647f02000 rw-p 00000000 00:00 0    name".
std::optional<ProcessMapping> MappingOf(std::string_view line) {
  const std::string_view addresses = TakeWord(&line);
  const std::size_t dash = addresses.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto begin = ToNumber(addresses.substr(0, dash), 16);
  const auto end = ToNumber(addresses.substr(dash + 1), 16);
  if (!begin || !end || *end < *begin) return std::nullopt;
  ProcessMapping mapping;
  mapping.begin = *begin;
  mapping.end = *end;
  mapping.permissions = TakeWord(&line);
  for (int i = 0; i < 3; ++i) TakeWord(&line);  // offset, device and inode of a file
  mapping.name = line;
  return mapping;
}

void ReadFigure(std::string_view line, ProcessMapping* mapping) {
  for (const Figure& figure : kFigures) {
    if (const auto bytes = KilobytesOf(line, figure.name)) {
      mapping->*figure.value = *bytes;
      return;
    }
  }
  if (TakeWord(&line) == "VmFlags:") mapping->flags = line;
}

}  // namespace

bool ProcessMapping::HasFlag(std::string_view flag) const {
  std::string_view rest = flags;
  for (std::string_view word = TakeWord(&rest); !word.empty(); word = TakeWord(&rest)) {
    if (word == flag) return true;
  }
  return false;
}

std::vector<ProcessMapping> ParseMappings(std::string_view text) {
  std::vector<ProcessMapping> mappings;
  for (std::string_view line; TakeLine(&text, &line);) {
    std::string_view rest = line;
    const std::string_view word = TakeWord(&rest);
    if (!word.ends_with(':')) {
      if (auto mapping = MappingOf(line)) mappings.push_back(std::move(*mapping));
    } else if (!mappings.empty()) {
      ReadFigure(line, &mappings.back());
    }
  }
  return mappings;
}

Result<std::vector<ProcessMapping>> ReadMappings(const std::string& folder) {
  SKV_ASSIGN_OR_RETURN(const std::string text, ReadKernelText(folder + "/smaps"));
  return ParseMappings(text);
}

}  // namespace swiftkv
