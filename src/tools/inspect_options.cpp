// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv inspect`.
#include "tools/inspect_options.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "swiftkv/attention.h"
#include "tools/flag_visitor.h"

namespace swiftkv {
namespace {

constexpr const char* kDescription =
    "Shows what is in a GGUF file and whether it will run; loads no weights. With --memory it "
    "loads\n"
    "them, and shows where the bytes are.";

Status Validate(const InspectOptions& options) {
  if (!options.memory && (options.tokens != 0 || options.process_id != 0)) {
    return Status::InvalidArgument(fmt::format(
        "{} belongs to --memory; give both, or not {}", options.tokens != 0 ? "--tokens" : "--pid",
        options.tokens != 0 ? options.tokens : options.process_id));
  }
  if (options.process_id != 0 && !options.model.path.empty()) {
    return Status::InvalidArgument(fmt::format(
        "--pid shows a process that runs, and loads no model; give one of --pid and the model {}",
        options.model.path));
  }
  SKV_RETURN_IF_ERROR(ValidateCacheOptions(options.cache));
  return MakeAttentionBackend(options.model).status();
}

}  // namespace

Result<InspectOptions> ParseInspectOptions(std::span<const char* const> arguments) {
  InspectOptions options;
  CLI::App app(kDescription, "swiftkv inspect");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(Validate(options));
  return options;
}

}  // namespace swiftkv
