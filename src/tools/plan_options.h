// SPDX-License-Identifier: Apache-2.0
// Holds the options of `swiftkv plan` and reads them from its command line.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/forgetting_rule.h"
#include "engine/option_field.h"
#include "swiftkv/status.h"
#include "tools/plan_presets.h"
#include "tools/plan_weights.h"

namespace swiftkv {

// Bounds that keep every sum of the plan within 64 bits.
inline constexpr int kMostPlannedTokens = 1 << 27;
inline constexpr int kMostPlannedRequests = 1 << 20;

struct PlanOptions {
  std::string path;
  std::string config;
  std::string preset;
  std::string weights_type;
  MemoryLimit memory;
  int context = 0;
  int batch = 1;
  int prefix = 0;
  int reserve = 0;
  NameList formats{{"all"}};
  NameList ratios{{"0", "0.5"}};
  std::string policy;
  float price_per_hour = 0;
  float tokens_per_second = 0;
  bool json = false;
};

// A visitor also hears the heading of each group: visit.Group(name).
template <typename Visitor>
void VisitOptions(Visitor&& visit, PlanOptions& options) {
  visit.Group("Model");
  visit(OptionField{"-m,--model", "model", "FILE",
                    "GGUF file, of which only metadata are read (default without --config and "
                    "--preset: as for run)"},
        options.path);
  visit(OptionField{"--config", "config", "FILE", "config.json of a model on Hugging Face"},
        options.config);
  visit(OptionField{.flags = "--preset",
                    .key = "preset",
                    .placeholder = "NAME",
                    .help = "Model whose shape is built in",
                    .choices = PlanPresetNames},
        options.preset);
  visit(OptionField{.flags = "--weights-type",
                    .key = "weights_type",
                    .placeholder = "TYPE",
                    .help = "Type of the weights, or bits of one, for --config and --preset "
                            "(default: as published)",
                    .choices = WeightTypeNames},
        options.weights_type);
  visit.Group("Machine");
  visit(OptionField{"--memory", "memory", "SIZE",
                    "Memory for weights, activations and cache together; auto: what the machine or "
                    "cgroup leaves, less headroom as for --kv-memory auto"},
        options.memory);
  visit(
      OptionField{"--price-per-hour", "price_per_hour", "X", "Price of the machine, any currency"},
      options.price_per_hour);
  visit(OptionField{"--tps", "tps", "X",
                    "Tokens per second of the whole batch on that machine; with the price gives "
                    "the cost of a million tokens"},
        options.tokens_per_second);
  visit.Group("Requests");
  visit(
      OptionField{"-c,--context", "context", "TOKENS",
                  "Tokens of a request at its end; 0: the model's maximum", 0, kMostPlannedTokens},
      options.context);
  visit(OptionField{"--batch", "batch", "N", "Requests that run at once", 1, kMostPlannedRequests},
        options.batch);
  visit(OptionField{"--prefix", "prefix", "TOKENS", "First tokens that all requests share", 0,
                    kMostPlannedTokens},
        options.prefix);
  visit(OptionField{"--reserve", "reserve", "TOKENS",
                    "What a contiguous cache would reserve for each request; 0: the model's "
                    "maximum",
                    0, kMostPlannedTokens},
        options.reserve);
  visit.Group("Rows");
  visit(OptionField{"--formats", "formats", "LIST",
                    "Formats of the cache besides f16; all: those of --kv, f32 left out"},
        options.formats);
  visit(OptionField{"--ratio", "ratio", "LIST",
                    "Fractions of the tokens that a policy forgets, besides 0"},
        options.ratios);
  visit(OptionField{"--policy", "policy", "NAME",
                    "Policy that forgets, or none (default: the program's first; sizes are alike)"},
        options.policy);
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line, and nothing else"},
        options.json);
}

// Reads the arguments that follow `plan`. Errors: InvalidArgument for what can never work;
// Cancelled with the help as its message where help was asked for.
Result<PlanOptions> ParsePlanOptions(std::span<const char* const> arguments);

// Returns the fractions of the list, ascending, 0 first. Errors: InvalidArgument.
Result<std::vector<double>> ParseRatios(const NameList& ratios);

}  // namespace swiftkv
