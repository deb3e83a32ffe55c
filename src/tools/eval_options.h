// SPDX-License-Identifier: Apache-2.0
// Holds all options of `swiftkv eval` and reads them from its command line.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine_options.h"
#include "swiftkv/page_layout.h"
#include "swiftkv/status.h"
#include "tools/run_options.h"

namespace swiftkv {

// Steps of 32 tokens: formats that keep the newest 128 tokens wide then show a row hardly more of
// them than decoding does. With steps of 512, int4's loss looks less than half as large.
inline constexpr int kEvalChunk = 32;

struct EvalOptions {
  EvalOptions() { model.max_batch_rows = kEvalChunk; }

  NameList formats{{"all"}};
  std::optional<std::string> text_file;  // none: the calibration text
  std::string weights;                   // "f16", "asis", or empty: what fits
  MemoryLimit memory;                    // hard bound on the cache that holds what is measured
  ModelOptions model;
  OutputOptions output;
};

template <typename Visitor>
void VisitOptions(Visitor&& visit, EvalOptions& options) {
  visit.Group("Measuring");
  visit(OptionField{.flags = "--formats",
                    .key = "formats",
                    .placeholder = "LIST",
                    .help = "Formats with commas between, KEYS/VALUES too; all: every named one",
                    .choices = NamedPageFormats},
        options.formats);
  visit(OptionField{"--text", "text", "FILE",
                    "Text to measure on (default: one of our own, whose figures are kept for "
                    "--kv auto)"},
        options.text_file);
  visit(OptionField{"--weights", "weights", "MODE",
                    "f16: weights rewritten as F16, so that their rounding hides nothing; asis: as "
                    "the file has them (default: f16 where that fits into memory and the folder "
                    "for temporary files)"},
        options.weights);
  visit(OptionField{"-c,--context", "context", "TOKENS",
                    "Tokens of a window; 0: 2048, or the model's maximum where that is less"},
        options.model.context);
  visit(OptionField{"--kv-memory", "kv_memory", "SIZE",
                    "Hard bound on the memory of all caches together; formats that do not fit side "
                    "by side are measured in turn; auto: what the machine or cgroup leaves"},
        options.memory);
  visit.Group("Model");
  VisitModelPath(visit, options.model);
  VisitComputing(visit, options.model);
  visit.Group("Output");
  VisitOptions(visit, options.output);
}

// Reads the arguments that follow `eval`. Errors: InvalidArgument for what can never work, before
// anything is loaded; Cancelled with the help as its message where help was asked for.
Result<EvalOptions> ParseEvalOptions(std::span<const char* const> arguments);

// Whether the list asks for every named format, as far as the model can have it.
bool NamesAll(const NameList& names);

// Returns the formats that the list names, f16 first in any case: it is what others are compared
// with. Errors: InvalidArgument with what is accepted.
Result<std::vector<PageFormat>> FormatsToMeasure(const NameList& names);

}  // namespace swiftkv
