// SPDX-License-Identifier: Apache-2.0
// Lists the benches; a new one is one file and one row.
#include "tools/bench_command.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "tools/bench_attention_command.h"
#include "tools/bench_capacity_command.h"
#include "tools/bench_engine_command.h"
#include "tools/bench_model_command.h"
#include "tools/bench_serve_command.h"
#include "tools/bench_waste_command.h"
#include "tools/failure_report.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

struct Bench {
  const char* name;
  const char* summary;
  int (*run)(std::span<const char* const> arguments);
};

constexpr Bench kBenches[] = {
    {"attention", "kernels beside the machine's own speed", BenchAttentionCommand},
    {"capacity", "requests that little memory serves, paged and reserved", BenchCapacityCommand},
    {"engine", "requests that share a prefix, computed together", BenchEngineCommand},
    {"model", "tokens per second of a model behind contexts of some depths", BenchModelCommand},
    {"serve", "a server over HTTP, as its clients see it", BenchServeCommand},
    {"waste", "memory that holds no token, paged and reserved", BenchWasteCommand},
};

std::string Names() {
  std::string names;
  for (const Bench& bench : kBenches) {
    if (!names.empty()) names += ", ";
    names += bench.name;
  }
  return names;
}

std::string Help() {
  std::string help =
      "Measures, and prints tables or JSON.\n\nUsage: swiftkv bench WHAT [OPTIONS]\n\n";
  for (const Bench& bench : kBenches)
    help += fmt::format("  {:<11}{}\n", bench.name, bench.summary);
  return help + "\n`swiftkv bench WHAT --help` lists the options.\n";
}

}  // namespace

int BenchCommand(std::span<const char* const> arguments) {
  const std::string_view first = arguments.empty() ? "" : arguments.front();
  if (first == "--help" || first == "-h") return ReportUsage("bench", Status::Cancelled(Help()));
  for (const Bench& bench : kBenches) {
    if (first == bench.name) return bench.run(arguments.subspan(1));
  }
  return ReportUsage("bench",
                     Status::InvalidArgument(fmt::format("what to measure is one of {}; got \"{}\"",
                                                         Names(), PrintableExcerpt(first, 60))));
}

}  // namespace swiftkv
