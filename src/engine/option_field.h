// SPDX-License-Identifier: Apache-2.0
// Describes one option as plain data, for everything that shows or reads options. Layer: engine.
//
// Every options struct has one function VisitOptions(visitor, options) with one line per field:
// `visit(OptionField{...}, options.field)`. From that line come the flag, its help, the JSON key,
// the row in docs/options.md and the dump at start; a visitor overloads operator() for the field
// types below.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "swiftkv/quality.h"

namespace swiftkv {

struct OptionField {
  const char* flags;        // "-c,--context": as a command line takes it
  const char* key;          // "context": in JSON and in the dump at start
  const char* placeholder;  // "TOKENS": what stands for the value in help; empty for a switch
  const char* help;         // one line without a full stop
  std::int64_t least = 0;   // range of whole-number fields, both ends included
  std::int64_t most = std::numeric_limits<std::int32_t>::max();
  std::string (*choices)() = nullptr;  // lists the words of a field that names a table's row
};

// How much memory the cache may use: a size, or what the machine leaves.
struct MemoryLimit {
  bool automatic = true;
  std::uint64_t bytes = 0;  // where not automatic

  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

// Several values of one flag, with commas between: "0,2048,7000". Never empty once parsed.
struct NumberList {
  std::vector<int> values;

  friend bool operator==(const NumberList&, const NumberList&) = default;
};
struct NameList {
  std::vector<std::string> names;

  friend bool operator==(const NameList&, const NameList&) = default;
};

// Types of fields: bool, int, float, std::string, std::optional<std::uint64_t>,
// std::optional<double>, std::optional<Quality>, MemoryLimit, NumberList, NameList,
// std::vector<std::string> and std::vector<LogitBias>.

}  // namespace swiftkv
