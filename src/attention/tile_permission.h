// SPDX-License-Identifier: Apache-2.0
// Asks the operating system for the matrix registers (AMX tiles) of this process.
#pragma once

#include "swiftkv/status.h"

namespace swiftkv {

// Asks Linux for the tile data state (arch_prctl, ARCH_REQ_XCOMP_PERM), for all threads that exist
// or come, once; later calls return what the first did. Errors: Unsupported where the kernel
// refuses or has no such call.
Status RequestTilePermission();

}  // namespace swiftkv
