// SPDX-License-Identifier: Apache-2.0
// Starts the program: descriptors, signals, then the subcommand.
#include <cstddef>
#include <span>

#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/standard_output.h"

int main(int argc, char** argv) {
  swiftkv::OccupyStandardDescriptors();
  swiftkv::InstallSignalHandlers();
  const std::span<const char* const> arguments(argv, static_cast<std::size_t>(argc));
  return swiftkv::RunCommandLine(arguments.subspan(argc > 0 ? 1 : 0));
}
