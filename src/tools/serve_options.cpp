// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv serve`.
#include "tools/serve_options.h"

#include "base/status_macros.h"
#include "swiftkv/attention.h"
#include "tools/flag_visitor.h"

namespace swiftkv {
namespace {

constexpr const char* kDescription =
    "Serves a model over HTTP with the OpenAI API.\n"
    "Listens on loopback until told otherwise; SIGTERM and Ctrl-C let replies under way end.";

Status CheckKeys(const char* flag, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key.empty()) {
      return Status::InvalidArgument(std::string(flag) +
                                     " takes a text of one byte or more, got \"\"");
    }
  }
  return Status::Ok();
}

}  // namespace

Result<ServeOptions> ParseServeOptions(std::span<const char* const> arguments) {
  ServeOptions options;
  CLI::App app(kDescription, "swiftkv serve");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(CheckKeys("--api-key", options.access.api_keys));
  SKV_RETURN_IF_ERROR(CheckKeys("--admin-key", options.access.admin_keys));
  SKV_RETURN_IF_ERROR(ValidateCacheOptions(options.cache));
  SKV_RETURN_IF_ERROR(ValidateForgetting(options.forgetting, options.cache));
  SKV_RETURN_IF_ERROR(MakeAttentionBackend(options.model).status());
  return options;
}

}  // namespace swiftkv
