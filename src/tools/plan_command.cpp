// SPDX-License-Identifier: Apache-2.0
// Computes the plan and prints it.
#include "tools/plan_command.h"

#include "base/status_macros.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/plan_options.h"
#include "tools/plan_report.h"
#include "tools/plan_table.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

Status Plan(const PlanOptions& options) {
  SKV_ASSIGN_OR_RETURN(const PlanTable table, MakePlanTable(options));
  StandardOutput output;
  output.Write(options.json ? PlanJson(table, options) + "\n" : PlanText(table, options));
  return output.status();
}

}  // namespace

int PlanCommand(std::span<const char* const> arguments) {
  const Result<PlanOptions> options = ParsePlanOptions(arguments);
  if (!options.ok()) return ReportUsage("plan", options.status());
  const Status status = Plan(*options);
  return status.ok() ? kExitSuccess : ReportFailure("plan", status);
}

}  // namespace swiftkv
