// SPDX-License-Identifier: Apache-2.0
// Holds all options of `swiftkv run` and reads them from its command line.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "engine/engine_options.h"
#include "engine/sampler_option_fields.h"
#include "swiftkv/sampler_options.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct PromptOptions {
  std::optional<std::string> text;
  std::optional<std::string> file;
  std::optional<std::string> many;  // a file of prompts
  bool raw = false;
  bool interactive = false;
  std::string system;
};

struct OutputOptions {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
};

// Other ways to give SamplerOptions::grammar.
struct GrammarOptions {
  std::string file;
  std::string json_schema;
};

struct RunOptions {
  PromptOptions prompt;
  OutputOptions output;
  ModelOptions model;
  CacheOptions cache;
  Forgetting forgetting;
  GenerationOptions generation;
  SamplerOptions sampling;
  GrammarOptions grammar;
  EngineLimits batch;  // of --prompts; the ceiling is the cache's
};

template <typename Visitor>
void VisitOptions(Visitor&& visit, PromptOptions& options) {
  visit(OptionField{"-p,--prompt", "prompt", "TEXT", "The prompt"}, options.text);
  visit(OptionField{"-f,--file", "prompt_file", "FILE",
                    "File that holds the prompt; - is standard input"},
        options.file);
  visit(OptionField{"--prompts", "prompts_file", "FILE",
                    "File of prompts that are answered together, one a line, or JSON objects with "
                    "a prompt and options of its own; - is standard input"},
        options.many);
  visit(OptionField{"--raw", "raw", "", "Take the prompt as it is, without the chat template"},
        options.raw);
  visit(OptionField{"-i,--interactive", "interactive", "",
                    "Chat; each turn computes only what is new (default on a terminal without a "
                    "prompt)"},
        options.interactive);
  visit(OptionField{"--system", "system", "TEXT", "System message of the chat"}, options.system);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, OutputOptions& options) {
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line, and nothing else"},
        options.json);
  visit(OptionField{"-q,--quiet", "quiet", "", "Print the reply only: no progress, no footer"},
        options.quiet);
  visit(OptionField{"-v,--verbose", "verbose", "", "Log what is done to standard error"},
        options.verbose);
}

template <typename Visitor>
void VisitOptions(Visitor&& visit, GrammarOptions& options) {
  visit(OptionField{"--grammar-file", "grammar_file", "FILE", "File that holds the grammar"},
        options.file);
  visit(OptionField{"--json-schema", "json_schema", "JSON",
                    "JSON schema that the reply must follow; {} allows any JSON"},
        options.json_schema);
}

// A visitor also hears the heading of each group: visit.Group(name).
template <typename Visitor>
void VisitOptions(Visitor&& visit, RunOptions& options) {
  visit.Group("Prompt");
  VisitOptions(visit, options.prompt);
  VisitOptions(visit, options.generation);
  visit.Group("Output");
  VisitOptions(visit, options.output);
  visit.Group("Many prompts");
  VisitOptions(visit, options.batch);
  visit.Group("Model");
  VisitOptions(visit, options.model);
  visit.Group("KV cache");
  VisitOptions(visit, options.cache);
  VisitOptions(visit, options.forgetting);
  visit.Group("Sampling");
  VisitOptions(visit, options.sampling);
  VisitOptions(visit, options.grammar);
}

// Reads the arguments that follow `run`. Errors: InvalidArgument for what can never work, before
// anything is loaded; Cancelled with the help as its message where help was asked for.
Result<RunOptions> ParseRunOptions(std::span<const char* const> arguments);

}  // namespace swiftkv
