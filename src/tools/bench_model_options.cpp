// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv bench model`.
#include "tools/bench_model_options.h"

#include "base/status_macros.h"
#include "swiftkv/attention.h"
#include "tools/bench_formats.h"
#include "tools/flag_visitor.h"

namespace swiftkv {

Result<BenchModelOptions> ParseBenchModelOptions(std::span<const char* const> arguments) {
  BenchModelOptions options;
  CLI::App app(
      "Measures tokens per second of a model behind contexts of some depths, and what part of\n"
      "the time attention takes. Formats are measured in turn; a row is the median of rounds.",
      "swiftkv bench model");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(ListBenchFormats(options.formats).status());
  SKV_RETURN_IF_ERROR(MakeAttentionBackend(options.model).status());
  return options;
}

}  // namespace swiftkv
