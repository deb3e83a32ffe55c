// SPDX-License-Identifier: Apache-2.0
// Gives the text that formats are calibrated on: English prose with lists, numbers, code, dialogue
// and questions about what came before (data/calibration.txt, built into the program).
#pragma once

#include <string_view>

namespace swiftkv {

std::string_view CalibrationText();

// The text's version: figures measured on another text are not comparable.
const char* CalibrationTextSha256();

}  // namespace swiftkv
