// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv bench engine`.
#include "tools/bench_engine_options.h"

#include "base/status_macros.h"
#include "swiftkv/attention.h"
#include "tools/bench_formats.h"
#include "tools/flag_visitor.h"

namespace swiftkv {

Result<BenchEngineOptions> ParseBenchEngineOptions(std::span<const char* const> arguments) {
  BenchEngineOptions options;
  CLI::App app(
      "Measures the engine: many requests at once, whose prompts begin alike, and the gaps of a\n"
      "stream while a long prompt is computed beside it. A row is the median of rounds.",
      "swiftkv bench engine");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(ListBenchFormats(options.formats).status());
  SKV_RETURN_IF_ERROR(MakeAttentionBackend(options.model).status());
  return options;
}

}  // namespace swiftkv
