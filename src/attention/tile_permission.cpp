// SPDX-License-Identifier: Apache-2.0
// Makes the system call; Documentation/arch/x86/xstate.rst of Linux describes it.
#include "attention/tile_permission.h"

#include <cstring>
#include <string>

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace swiftkv {
namespace {

Status Ask() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return Status::Ok();
  return Status::Unsupported(
      std::string("the kernel must let this process use AMX tiles (Linux 5.16 or later, and no "
                  "signal stack that is too small), but it answers: ") +
      std::strerror(errno));
#else
  return Status::Unsupported("AMX tiles are asked for on Linux for x86-64 only");
#endif
}

}  // namespace

Status RequestTilePermission() {
  static const Status answer = Ask();
  return answer;
}

}  // namespace swiftkv
