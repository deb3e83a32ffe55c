// SPDX-License-Identifier: Apache-2.0
// Tells the user what went wrong, in one line on standard error, and picks the exit status.
#pragma once

#include "swiftkv/status.h"

namespace swiftkv {

// Prints "swiftkv COMMAND: message" and returns kExitFailure, or kExitInterrupted for Cancelled.
int ReportFailure(const char* command, const Status& status);

// Same for a command line that cannot be carried out: returns kExitUsage. Cancelled carries the
// help that was asked for: prints it on standard output and returns kExitSuccess.
int ReportUsage(const char* command, const Status& status);

}  // namespace swiftkv
