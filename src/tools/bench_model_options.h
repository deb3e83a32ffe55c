// SPDX-License-Identifier: Apache-2.0
// Holds the options of `swiftkv bench model` and reads them from its command line.
#pragma once

#include <span>

#include "engine/engine_options.h"
#include "engine/option_field.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct BenchModelOptions {
  NumberList depths{{0, 2048, 7000}};
  NameList formats{{"all"}};
  int batch = 1;
  int shared_tokens = 0;
  int prefill_tokens = 512;
  int decode_tokens = 32;
  int rounds = 3;
  bool json = false;
  MemoryLimit memory;
  ModelOptions model;
};

// A visitor also hears the heading of each group: visit.Group(name).
template <typename Visitor>
void VisitOptions(Visitor&& visit, BenchModelOptions& options) {
  visit.Group("Rows");
  visit(OptionField{"--depths", "depths", "LIST", "Tokens before the measured ones", 0, 1 << 24},
        options.depths);
  visit(OptionField{"--formats", "formats", "LIST",
                    "Formats of the cache; all: those of --kv that the kernels compute, f32 left "
                    "out"},
        options.formats);
  visit(OptionField{"--batch", "batch", "N", "Sequences that decode together", 1, 1024},
        options.batch);
  visit(OptionField{"--shared", "shared", "TOKENS",
                    "First tokens whose pages these sequences share, if they are as deep", 0,
                    1 << 24},
        options.shared_tokens);
  visit.Group("Measurement");
  visit(OptionField{"--prefill", "prefill", "N", "Tokens of a prefill at each depth", 1, 1 << 20},
        options.prefill_tokens);
  visit(OptionField{"--decode", "decode", "N", "Tokens that each sequence decodes at each depth", 1,
                    1 << 20},
        options.decode_tokens);
  visit(OptionField{"--rounds", "rounds", "N", "Times that each row is measured, formats in turn",
                    1, 1000},
        options.rounds);
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line, and nothing else"},
        options.json);
  visit(OptionField{"--kv-memory", "kv_memory", "SIZE",
                    "Hard bound on the caches of all formats together; auto: what the machine or "
                    "cgroup leaves"},
        options.memory);
  visit.Group("Model");
  VisitOptions(visit, options.model);
}

// Reads the arguments that follow `bench model`. Errors: InvalidArgument or Unsupported for what
// can never work, before anything is loaded; Cancelled with the help as its message where help was
// asked for.
Result<BenchModelOptions> ParseBenchModelOptions(std::span<const char* const> arguments);

}  // namespace swiftkv
