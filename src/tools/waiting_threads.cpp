// SPDX-License-Identifier: Apache-2.0
// Sets what libgomp reads and executes the program again under the same process id.
#include "tools/waiting_threads.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace swiftkv {
namespace {

// Rounds of some 50 microseconds together: as fast as spinning for milliseconds on a free machine,
// twice as fast beside a busy process.
constexpr const char* kSpins = "1000";

}  // namespace

void LetWaitingThreadsSleep(char** arguments) {
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    if (std::getenv(name) != nullptr) return;
  }
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv("GOMP_SPINCOUNT", kSpins, /*overwrite=*/1) != 0) return;
  execv(program.c_str(), arguments);
}

}  // namespace swiftkv
