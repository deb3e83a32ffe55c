// SPDX-License-Identifier: Apache-2.0
// Prints failures.
#include "tools/failure_report.h"

#include <fmt/format.h>

#include <cstdio>

#include "tools/exit_status.h"
#include "tools/printable_text.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

void PrintFailure(const char* command, const Status& status) {
  fmt::print(stderr, "swiftkv {}: {}\n", command, PrintableLine(status.message()));
}

}  // namespace

int ReportFailure(const char* command, const Status& status) {
  PrintFailure(command, status);
  return status.code() == StatusCode::kCancelled ? kExitInterrupted : kExitFailure;
}

int ReportUsage(const char* command, const Status& status) {
  if (status.code() == StatusCode::kCancelled) {
    StandardOutput output;
    if (output.Write(status.message()) || output.reader_left()) return kExitSuccess;
    return ReportFailure(command, output.status());
  }
  PrintFailure(command, status);
  return kExitUsage;
}

}  // namespace swiftkv
