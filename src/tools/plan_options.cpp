// SPDX-License-Identifier: Apache-2.0
// Parses the command line of `swiftkv plan`.
#include "tools/plan_options.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "base/status_macros.h"
#include "policy/eviction_policy.h"
#include "tools/bench_formats.h"
#include "tools/flag_visitor.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

Status CheckSource(const PlanOptions& options) {
  const int sources = (options.path.empty() ? 0 : 1) + (options.config.empty() ? 0 : 1) +
                      (options.preset.empty() ? 0 : 1);
  if (sources > 1) {
    return Status::InvalidArgument(fmt::format(
        "a plan is for one model: --model, --config or --preset, got {} of them", sources));
  }
  if (options.weights_type.empty()) return Status::Ok();
  if (options.config.empty() && options.preset.empty()) {
    return Status::InvalidArgument(fmt::format(
        "--weights-type goes with --config and --preset, for a GGUF tells its own, got \"{}\"",
        PrintableExcerpt(options.weights_type, 60)));
  }
  return ParseWeightType(options.weights_type).status();
}

// Parameters, behind a colon, change which tokens go and not how many.
Status CheckPolicy(const std::string& policy) {
  if (policy.empty() || policy == kNoPolicy) return Status::Ok();
  return FindPolicy(policy.substr(0, policy.find(':'))).status();
}

Status CheckNotNegative(const char* flag, float value) {
  if (value >= 0) return Status::Ok();
  return Status::InvalidArgument(fmt::format("{} accepts 0 and more, got {}", flag, value));
}

}  // namespace

Result<std::vector<double>> ParseRatios(const NameList& ratios) {
  std::set<double> ascending = {0.0};
  for (const std::string& text : ratios.names) {
    double ratio = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, ratio, std::chars_format::fixed);
    if (parsed.ec != std::errc() || parsed.ptr != end || !(ratio >= 0 && ratio < 1)) {
      return Status::InvalidArgument(
          fmt::format("--ratio accepts numbers from 0 to below 1 with commas between, got \"{}\"",
                      PrintableExcerpt(text, 60)));
    }
    ascending.insert(ratio == 0 ? 0.0 : ratio);
  }
  return std::vector<double>(ascending.begin(), ascending.end());
}

Result<PlanOptions> ParsePlanOptions(std::span<const char* const> arguments) {
  PlanOptions options;
  CLI::App app(
      "Tells what a model's requests take in the cache, how long and how many fit a memory, and\n"
      "what drives the figure; loads no weights.",
      "swiftkv plan");
  FlagVisitor visitor(&app);
  VisitOptions(visitor, options);
  SKV_RETURN_IF_ERROR(ParseArguments(&app, arguments));
  SKV_RETURN_IF_ERROR(CheckSource(options));
  if (!options.preset.empty()) SKV_RETURN_IF_ERROR(FindPlanPreset(options.preset).status());
  SKV_RETURN_IF_ERROR(ListBenchFormats(options.formats).status());
  SKV_RETURN_IF_ERROR(ParseRatios(options.ratios).status());
  SKV_RETURN_IF_ERROR(CheckPolicy(options.policy));
  SKV_RETURN_IF_ERROR(CheckNotNegative("--price-per-hour", options.price_per_hour));
  SKV_RETURN_IF_ERROR(CheckNotNegative("--tps", options.tokens_per_second));
  return options;
}

}  // namespace swiftkv
