// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv run` and checks options against one another.
#include "tools/run_options.h"

#include <fmt/format.h>

#include <limits>

#include "base/status_macros.h"
#include "swiftkv/attention.h"
#include "tools/flag_visitor.h"

namespace swiftkv {
namespace {

constexpr const char* kDescription =
    "Answers a prompt, or chats, and tells what the KV cache cost.\n"
    "The prompt comes from -p, from -f, or from standard input where that is no terminal.";

// Says which two options exclude each other; no message where they do not.
std::string Conflict(const RunOptions& options) {
  const int grammars = (options.sampling.grammar.empty() ? 0 : 1) +
                       (options.grammar.file.empty() ? 0 : 1) +
                       (options.grammar.json_schema.empty() ? 0 : 1);
  if (options.prompt.text && options.prompt.file) return "-p and -f both give the prompt";
  if (options.prompt.many && (options.prompt.text || options.prompt.file)) {
    return "--prompts gives all prompts, -p and -f give one";
  }
  if (options.prompt.many && options.prompt.interactive) {
    return "-i chats, --prompts answers prompts from a file";
  }
  if (options.prompt.raw && options.prompt.interactive) {
    return "-i needs the chat template, which --raw turns off";
  }
  if (options.prompt.raw && !options.prompt.system.empty()) {
    return "--system needs the chat template, which --raw turns off";
  }
  if (grammars > 1) return "--grammar, --grammar-file and --json-schema all give the grammar";
  return "";
}

Status Validate(const RunOptions& options) {
  const std::string conflict = Conflict(options);
  if (!conflict.empty()) {
    return Status::InvalidArgument(conflict + "; give one of them");
  }
  SKV_RETURN_IF_ERROR(ValidateCacheOptions(options.cache));
  SKV_RETURN_IF_ERROR(ValidateForgetting(options.forgetting, options.cache));
  // Token ids are checked again once the vocabulary is known.
  constexpr int kAnyVocabulary = std::numeric_limits<int>::max();
  SKV_RETURN_IF_ERROR(ValidateSamplerOptions(options.sampling, kAnyVocabulary));
  return MakeAttentionBackend(options.model).status();
}

}  // namespace

Result<RunOptions> ParseRunOptions(std::span<const char* const> arguments) {
  RunOptions options;
  CLI::App app(kDescription, "swiftkv run");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(Validate(options));
  return options;
}

}  // namespace swiftkv
