// SPDX-License-Identifier: Apache-2.0
// Words what was measured: one JSON line for programs, a table for people.
#pragma once

#include <string>

#include "tools/quality_measurement.h"

namespace swiftkv {

// What was measured, and on what.
struct EvalReport {
  std::string model;        // path
  std::string text;         // path, or "calibration"
  std::string text_sha256;  // of the calibration text; empty for a file
  Measurement measurement;
};

// Returns the JSON object of `eval --json` without a line break (docs/json.md).
std::string EvalJson(const EvalReport& report);

// Returns the table and what it was measured on, each line with a line break.
std::string EvalTable(const EvalReport& report);

}  // namespace swiftkv
