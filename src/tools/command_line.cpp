// SPDX-License-Identifier: Apache-2.0
// Lists the subcommands; a new one is one file and one row.
#include "tools/command_line.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "tools/bench_command.h"
#include "tools/eval_command.h"
#include "tools/exit_status.h"
#include "tools/failure_report.h"
#include "tools/inspect_command.h"
#include "tools/plan_command.h"
#include "tools/printable_text.h"
#include "tools/run_command.h"
#include "tools/serve_command.h"
#include "tools/standard_output.h"

namespace swiftkv {
namespace {

struct Subcommand {
  const char* name;
  const char* summary;
  int (*run)(std::span<const char* const> arguments);
};

constexpr std::array<Subcommand, 6> kSubcommands = {{
    {"run", "answer a prompt or chat, and tell what the KV cache cost", RunCommand},
    {"serve", "serve a model over HTTP with the OpenAI API", ServeCommand},
    {"plan", "tell what fits a memory, without loading weights", PlanCommand},
    {"eval", "measure what page formats lose on a model", EvalCommand},
    {"bench", "measure kernels and models beside the machine's own speed", BenchCommand},
    {"inspect", "show what is in a GGUF file and whether it will run", InspectCommand},
}};

std::string Names() {
  std::string names;
  for (const Subcommand& subcommand : kSubcommands) {
    if (!names.empty()) names += ", ";
    names += subcommand.name;
  }
  return names;
}

std::string Help() {
  std::string help =
      "Runs GGUF language models on CPUs with a paged KV cache.\n\n"
      "Usage: swiftkv SUBCOMMAND [OPTIONS]\n\n";
  for (const Subcommand& subcommand : kSubcommands) {
    help += fmt::format("  {:<10}{}\n", subcommand.name, subcommand.summary);
  }
  return help +
         "\n`swiftkv SUBCOMMAND --help` lists the options; `swiftkv --version` tells the "
         "version.\n";
}

int PrintAndExit(const std::string& text) {
  StandardOutput output;
  if (output.Write(text) || output.reader_left()) return kExitSuccess;
  fmt::print(stderr, "swiftkv: {}\n", output.status().message());
  return kExitFailure;
}

int Dispatch(std::span<const char* const> arguments) {
  if (arguments.empty()) {
    fmt::print(stderr, "swiftkv: a subcommand is needed: {}; `swiftkv --help` tells more\n",
               Names());
    return kExitUsage;
  }
  const std::string_view first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") return PrintAndExit(Help());
  if (first == "--version") return PrintAndExit("swiftkv " SWIFTKV_VERSION "\n");
  for (const Subcommand& subcommand : kSubcommands) {
    if (first == subcommand.name) return subcommand.run(arguments.subspan(1));
  }
  fmt::print(stderr, "swiftkv: the subcommands are {}; got \"{}\"\n", Names(),
             PrintableExcerpt(first, 60));
  return kExitUsage;
}

}  // namespace

int RunCommandLine(std::span<const char* const> arguments) {
  try {
    return Dispatch(arguments);
  } catch (const std::bad_alloc&) {
    std::fputs("swiftkv: the system has no memory left; use a smaller model or context\n", stderr);
  } catch (const std::exception& error) {
    fmt::print(stderr, "swiftkv: an unexpected failure: {}\n", PrintableLine(error.what()));
  }
  return kExitFailure;
}

}  // namespace swiftkv
