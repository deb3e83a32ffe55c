// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv bench capacity`.
#include "tools/bench_capacity_options.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "swiftkv/attention.h"
#include "tools/bench_capacity_allocators.h"
#include "tools/bench_formats.h"
#include "tools/flag_visitor.h"

namespace swiftkv {

Result<BenchCapacityOptions> ParseBenchCapacityOptions(std::span<const char* const> arguments) {
  BenchCapacityOptions options;
  CLI::App app(
      "Measures how many requests a model serves at a time, how fast and how soon, in the memory\n"
      "that a few requests of the greatest length take: the paged cache beside the same engine\n"
      "that reserves memory for each request before it starts.",
      "swiftkv bench capacity");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(FindLengths(options.lengths).status());
  SKV_RETURN_IF_ERROR(ListCapacityAllocators(options.allocators).status());
  SKV_RETURN_IF_ERROR(ListBenchFormats(options.formats).status());
  SKV_RETURN_IF_ERROR(MakeAttentionBackend(options.model).status());
  if (options.shared_tokens > options.max_length - 2) {
    return Status::InvalidArgument(
        fmt::format("--shared leaves room for two tokens more within --max-length {}, got {}",
                    options.max_length, options.shared_tokens));
  }
  options.model.context = options.max_length;
  return options;
}

}  // namespace swiftkv
