// SPDX-License-Identifier: Apache-2.0
// Turns Ctrl-C into a flag that running work looks at.
//
// The first interrupt sets the flag; a second one before ClearInterrupt ends the process as if
// nothing had been installed. System calls that wait are woken (no SA_RESTART).
#pragma once

#include <atomic>

namespace swiftkv {

// Installs the handler of SIGINT and makes writes to a closed pipe return an error instead of
// raising SIGPIPE. Called once, before other threads start.
void InstallSignalHandlers();

// Treats SIGTERM as SIGINT, for commands that a supervisor stops. Called once, likewise.
void AlsoHandleTermination();

// The flag: true from the first interrupt until ClearInterrupt.
const std::atomic<bool>* InterruptFlag();
bool Interrupted();
void ClearInterrupt();

}  // namespace swiftkv
