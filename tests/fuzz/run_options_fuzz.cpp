// SPDX-License-Identifier: Apache-2.0
// Feeds any text, one argument a line, to the flags of `swiftkv run`; an error must be one
// printable sentence.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "tools/run_options.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < size; ++i) {
    const char c = static_cast<char>(data[i]);
    if (c == '\n') {
      lines.emplace_back();
    } else if (c != '\0') {  // no argument can hold one
      lines.back() += c;
    }
  }
  std::vector<const char*> arguments;
  for (const std::string& line : lines) arguments.push_back(line.c_str());
  const auto options = swiftkv::ParseRunOptions(arguments);
  if (!options.ok()) SKV_CHECK(!options.status().message().empty(), "an error says what is wrong");
  return 0;
}
