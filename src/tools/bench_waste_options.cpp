// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv bench waste`.
#include "tools/bench_waste_options.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "tools/bench_formats.h"
#include "tools/bench_waste_allocator.h"
#include "tools/flag_visitor.h"

namespace swiftkv {

Result<BenchWasteOptions> ParseBenchWasteOptions(std::span<const char* const> arguments) {
  BenchWasteOptions options;
  CLI::App app(
      "Measures what part of a cache's memory holds no token while a batch is full and requests\n"
      "wait: the paged cache beside servers that reserve contiguous memory for each request.\n"
      "Slots are counted at every step, bytes are what the kernel counts (smaps).",
      "swiftkv bench waste");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(FindLengths(options.lengths).status());
  SKV_RETURN_IF_ERROR(ListAllocators(options.allocators).status());
  SKV_RETURN_IF_ERROR(ListCacheShapes(options.geometries).status());
  SKV_RETURN_IF_ERROR(ListBenchFormats(options.formats).status());
  if (options.requests < options.batch) {
    return Status::InvalidArgument(
        fmt::format("--requests fills a batch of {} at least once, so that it is no less than "
                    "that; got {}",
                    options.batch, options.requests));
  }
  return options;
}

}  // namespace swiftkv
