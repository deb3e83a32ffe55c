// SPDX-License-Identifier: Apache-2.0
// Opens the file and prints its summary.
#include "tools/inspect_command.h"

#include <string>

#include "base/status_macros.h"
#include "engine/option_field.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/flag_visitor.h"
#include "tools/inspect_report.h"
#include "tools/model_path.h"
#include "tools/model_summary.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

struct InspectOptions {
  std::string path;
  bool tensors = false;
  bool json = false;
};

template <typename Visitor>
void VisitOptions(Visitor&& visit, InspectOptions& options) {
  visit(OptionField{"MODEL,-m,--model", "model", "FILE",
                    "GGUF file; of a split model the first (default: as for run)"},
        options.path);
  visit(OptionField{"--tensors", "tensors", "", "List every tensor"}, options.tensors);
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line"}, options.json);
}

Result<InspectOptions> ParseInspectOptions(std::span<const char* const> arguments) {
  InspectOptions options;
  CLI::App app("Shows what is in a GGUF file and whether it will run; loads no weights.",
               "swiftkv inspect");
  VisitOptions(FlagVisitor(&app), options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  return options;
}

Status Inspect(const InspectOptions& options) {
  SKV_ASSIGN_OR_RETURN(const std::string path,
                       ResolveModelPath(options.path, ProcessEnvironment()));
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  const ModelSummary summary = SummarizeModel(*file);
  StandardOutput output;
  output.Write(options.json ? InspectJson(summary, *file, options.tensors) + "\n"
                            : InspectText(summary, *file, options.tensors));
  return output.status();
}

}  // namespace

int InspectCommand(std::span<const char* const> arguments) {
  const Result<InspectOptions> options = ParseInspectOptions(arguments);
  if (!options.ok()) return ReportUsage("inspect", options.status());
  const Status status = Inspect(*options);
  return status.ok() ? kExitSuccess : ReportFailure("inspect", status);
}

}  // namespace swiftkv
