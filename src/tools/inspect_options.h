// SPDX-License-Identifier: Apache-2.0
// Holds all options of `swiftkv inspect` and reads them from its command line.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "engine/engine_options.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Tokens that `inspect --memory` stores where the user gives no number.
inline constexpr int kInspectedTokens = 1024;

struct InspectOptions {
  bool tensors = false;
  bool json = false;
  bool memory = false;
  int tokens = 0;      // of the sequence; 0: kInspectedTokens, or what the context allows
  int process_id = 0;  // look at another process; 0: load a model and look at this one
  ModelOptions model;
  CacheOptions cache;
};

template <typename Visitor>
void VisitOptions(Visitor&& visit, InspectOptions& options) {
  visit.Group("File");
  visit(OptionField{"MODEL,-m,--model", "model", "FILE",
                    "GGUF file; of a split model the first (default: as for run)"},
        options.model.path);
  visit(OptionField{"--tensors", "tensors", "", "List every tensor"}, options.tensors);
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line"}, options.json);
  visit.Group("Memory");
  visit(OptionField{"--memory", "memory", "",
                    "Load the model as run does, store a sequence, and show what is counted beside "
                    "what the kernel counts"},
        options.memory);
  visit(OptionField{"--tokens", "tokens", "N",
                    "Tokens of that sequence; 0: 1024, or one less than the context"},
        options.tokens);
  visit(OptionField{"--pid", "pid", "PID",
                    "With --memory: show what the kernel counts of a running process; loads "
                    "nothing"},
        options.process_id);
  visit(OptionField{"-c,--context", "context", "TOKENS",
                    "Longest context of a sequence; 0: the model's maximum; reserves nothing"},
        options.model.context);
  VisitComputing(visit, options.model);
  visit.Group("KV cache");
  VisitOptions(visit, options.cache);
}

// Reads the arguments that follow `inspect`. Errors: InvalidArgument for what can never work;
// Cancelled with the help as its message where help was asked for.
Result<InspectOptions> ParseInspectOptions(std::span<const char* const> arguments);

}  // namespace swiftkv
