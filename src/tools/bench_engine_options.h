// SPDX-License-Identifier: Apache-2.0
// Holds the options of `swiftkv bench engine` and reads them from its command line.
#pragma once

#include <span>

#include "engine/engine_options.h"
#include "engine/option_field.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct BenchEngineOptions {
  int requests = 16;
  int shared_tokens = 1900;
  int own_tokens = 20;
  int new_tokens = 64;
  int late_prompt = 6000;
  NameList formats{{"f16"}};
  int rounds = 3;
  bool json = false;
  MemoryLimit memory;
  ModelOptions model;
};

// A visitor also hears the heading of each group: visit.Group(name).
template <typename Visitor>
void VisitOptions(Visitor&& visit, BenchEngineOptions& options) {
  constexpr int kMost = 1 << 24;
  visit.Group("Requests, all submitted at once to an empty cache");
  visit(OptionField{"--requests", "requests", "N", "How many", 1, 1024}, options.requests);
  visit(
      OptionField{"--shared", "shared_tokens", "TOKENS", "First tokens of every prompt", 0, kMost},
      options.shared_tokens);
  visit(OptionField{"--own", "own_tokens", "TOKENS", "Tokens behind them, other in each prompt", 1,
                    kMost},
        options.own_tokens);
  visit(OptionField{"--new", "new_tokens", "TOKENS", "Tokens of every reply", 1, kMost},
        options.new_tokens);
  visit.Group("A stream that a long prompt joins");
  visit(OptionField{"--late-prompt", "late_prompt", "TOKENS",
                    "Tokens of that prompt; 0: not measured", 0, kMost},
        options.late_prompt);
  visit.Group("Measurement");
  visit(OptionField{"--formats", "formats", "LIST",
                    "Formats of the cache; all: those of --kv that the kernels compute, f32 left "
                    "out"},
        options.formats);
  visit(OptionField{"--rounds", "rounds", "N", "Times that each row is measured, formats in turn",
                    1, 1000},
        options.rounds);
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line, and nothing else"},
        options.json);
  visit(OptionField{"--kv-memory", "kv_memory", "SIZE",
                    "Hard bound on the cache's memory; auto: what the machine or cgroup leaves"},
        options.memory);
  visit.Group("Model");
  VisitOptions(visit, options.model);
}

// Reads the arguments that follow `bench engine`. Errors: InvalidArgument or Unsupported for what
// can never work, before anything is loaded; Cancelled with the help as its message where help was
// asked for.
Result<BenchEngineOptions> ParseBenchEngineOptions(std::span<const char* const> arguments);

}  // namespace swiftkv
