// SPDX-License-Identifier: Apache-2.0
// Sets the program's log up: standard error, silent unless asked for.
#pragma once

namespace swiftkv {

// Called once, before anything logs.
void StartLog(bool verbose);

}  // namespace swiftkv
