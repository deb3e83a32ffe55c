// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv bench attention`.
#include "tools/bench_attention_options.h"

#include "base/status_macros.h"
#include "tools/bench_attention_rows.h"
#include "tools/flag_visitor.h"

namespace swiftkv {

Result<BenchAttentionOptions> ParseBenchAttentionOptions(std::span<const char* const> arguments) {
  BenchAttentionOptions options;
  CLI::App app(
      "Measures attention kernels beside what the machine can read and compute at best.\n"
      "A pass of decode reads pages in shuffled frames, more than the processor's caches hold.",
      "swiftkv bench attention");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(ListAttentionCases(options).status());
  return options;
}

}  // namespace swiftkv
