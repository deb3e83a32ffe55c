// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target once over every file of the given folders, where no fuzzing engine is linked.
//
// A fault ends the process by signal or sanitizer report, so reaching the end is the verdict.
// Single thread. The empty input is always tried, so that a missing corpus still exercises the
// target.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::vector<std::filesystem::path> ListInputs(int argument_count, char** arguments) {
  std::vector<std::filesystem::path> inputs;
  for (int i = 1; i < argument_count; ++i) {
    if (!std::filesystem::is_directory(arguments[i])) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[i])) {
      if (entry.is_regular_file()) inputs.push_back(entry.path());
    }
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

void RunFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argument_count, char** arguments) {
  LLVMFuzzerTestOneInput(nullptr, 0);
  const auto inputs = ListInputs(argument_count, arguments);
  for (const auto& path : inputs) RunFile(path);
  std::printf("%zu inputs and the empty one, no fault\n", inputs.size());
  return 0;
}
