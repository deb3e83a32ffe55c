// SPDX-License-Identifier: Apache-2.0
// Starts the program: descriptors, signals, stack, then the subcommand.
#include <array>
#include <cstddef>
#include <span>

#include "tools/command_line.h"
#include "tools/interrupt.h"
#include "tools/standard_output.h"
#include "tools/waiting_threads.h"

namespace {

// Attention keeps more than half a MiB a thread on the stack. The first thread's grows when it is
// touched, and where addresses are limited a step would find none left: take them while there are.
[[gnu::noinline]] void GrowStack() {
  std::array<volatile char, std::size_t{2} << 20> stack;
  stack[0] = 0;
}

}  // namespace

int main(int argc, char** argv) {
  swiftkv::LetWaitingThreadsSleep(argv);
  swiftkv::OccupyStandardDescriptors();
  GrowStack();
  swiftkv::InstallSignalHandlers();
  const std::span<const char* const> arguments(argv, static_cast<std::size_t>(argc));
  return swiftkv::RunCommandLine(arguments.subspan(argc > 0 ? 1 : 0));
}
