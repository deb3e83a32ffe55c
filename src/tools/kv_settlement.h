// SPDX-License-Identifier: Apache-2.0
// Settles model path and page format of a command before the model is loaded, and tells its user
// what calibration has to say.
#pragma once

#include "swiftkv/status.h"
#include "tools/kv_choice.h"
#include "tools/run_options.h"

namespace swiftkv {

// Puts the model's path and the chosen formats into the options. Sentences for the user go to
// standard error, after the command's name; `show_progress` allows a progress line there. Errors:
// those of ResolveModelPath and ChooseKvFormat.
Result<KvChoice> SettleKvFormat(const char* command, bool show_progress, RunOptions* options);

}  // namespace swiftkv
