// SPDX-License-Identifier: Apache-2.0
// Prints the summary of a file, or the view of a process's memory.
#include "tools/inspect_command.h"

#include <string>

#include "base/status_macros.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/inspect_memory.h"
#include "tools/inspect_options.h"
#include "tools/inspect_report.h"
#include "tools/memory_report.h"
#include "tools/model_path.h"
#include "tools/model_summary.h"
#include "tools/process_log.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

Result<std::string> FileText(const InspectOptions& options) {
  SKV_ASSIGN_OR_RETURN(const std::string path,
                       ResolveModelPath(options.model.path, ProcessEnvironment()));
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  const ModelSummary summary = SummarizeModel(*file);
  return options.json ? InspectJson(summary, *file, options.tensors) + "\n"
                      : InspectText(summary, *file, options.tensors);
}

Result<std::string> MemoryText(const InspectOptions& options) {
  StartLog(/*verbose=*/false);
  if (options.process_id != 0) {
    SKV_ASSIGN_OR_RETURN(const KernelView view, ViewProcess(options.process_id));
    return options.json ? KernelViewJson(view) + "\n" : KernelViewText(view);
  }
  SKV_ASSIGN_OR_RETURN(const MemoryView view, InspectMemory(options));
  return options.json ? MemoryViewJson(view) + "\n" : MemoryViewText(view);
}

Status Inspect(const InspectOptions& options) {
  SKV_ASSIGN_OR_RETURN(const std::string text,
                       options.memory ? MemoryText(options) : FileText(options));
  StandardOutput output;
  output.Write(text);
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
