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
#include "tools/eval_cells.h"
#include "tools/run_options.h"

namespace swiftkv {

// Steps of 32 tokens: formats that keep the newest 128 tokens wide then show a row hardly more of
// them than decoding does. With steps of 512, int4's loss looks less than half as large.
inline constexpr int kEvalChunk = 32;

struct EvalOptions {
  EvalOptions() { model.max_batch_rows = kEvalChunk; }

  NameList formats;      // empty: all; f16 where policies are measured
  std::string policies;  // with commas between; empty: formats alone are calibrated
  NameList ratios{{"0.25", "0.5", "0.75"}};
  NameList splits{{"uniform"}};
  NameList kept_as{{"same"}};
  int windows = 4;  // of texts and copies
  int needles = 1;  // documents of each length and depth
  int seed = 1;
  std::optional<std::string> folder;  // of finished cells
  bool query_statistics = false;
  std::optional<std::string> text_file;  // none: the calibration text
  std::string weights;                   // "f16", "asis", or empty: what fits
  MemoryLimit memory;                    // hard bound on the cache that holds what is measured
  ModelOptions model;
  OutputOptions output;
};

// What --budget-split accepts, with commas between.
std::string BudgetSplitNames();

template <typename Visitor>
void VisitOptions(Visitor&& visit, EvalOptions& options) {
  visit.Group("Measuring");
  visit(OptionField{.flags = "--formats",
                    .key = "formats",
                    .placeholder = "LIST",
                    .help = "Formats with commas between, KEYS/VALUES too; all: every named one, "
                            "the default (f16 with --policies)",
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
  visit.Group("Forgetting");
  visit(OptionField{.flags = "--policies",
                    .key = "policies",
                    .placeholder = "LIST",
                    .help = "Policies with commas between, NAME[:key=value,...]; all: every one; "
                            "none: formats alone, with copies and needles too; random comes with "
                            "every list",
                    .choices = PolicyChoices},
        options.policies);
  visit(OptionField{"--ratios", "ratios", "LIST", "Fractions that are removed"}, options.ratios);
  visit(OptionField{.flags = "--budget-split",
                    .key = "budget_split",
                    .placeholder = "LIST",
                    .help = "How what is kept is divided among layers and heads",
                    .choices = BudgetSplitNames},
        options.splits);
  visit(OptionField{"--kept-as", "kept_as", "LIST",
                    "How kept tokens are kept: same, or FORMAT=SHARE: the least important part of "
                    "them in a smaller format"},
        options.kept_as);
  visit(OptionField{"--windows", "windows", "N", "Texts and copies, as far as the text reaches", 1,
                    1024},
        options.windows);
  visit(OptionField{"--needles", "needles", "N", "Documents of each length and depth", 0, 1024},
        options.needles);
  visit(OptionField{"--seed", "seed", "N", "Of planted facts and of random"}, options.seed);
  visit(OptionField{"--out", "out", "DIR",
                    "Folder that keeps finished cells: a run that was stopped goes on from there"},
        options.folder);
  visit(OptionField{"--query-stats", "query_stats", "",
                    "Measure the model's query statistics on the text and keep them; with "
                    "--policies: use those kept, in place of each prefix's own"},
        options.query_statistics);
  visit.Group("Model");
  VisitModelPath(visit, options.model);
  VisitComputing(visit, options.model);
  visit.Group("Output");
  VisitOptions(visit, options.output);
}

// Reads the arguments that follow `eval`. Errors: InvalidArgument for what can never work, before
// anything is loaded; Cancelled with the help as its message where help was asked for.
Result<EvalOptions> ParseEvalOptions(std::span<const char* const> arguments);

// Whether the list asks for every named format, as far as the model can have it; an empty one does.
bool NamesAll(const NameList& names);

// Returns the formats that the list names, all for an empty one, f16 first in any case: it is what
// others are compared with. Errors: InvalidArgument with what is accepted.
Result<std::vector<PageFormat>> FormatsToMeasure(const NameList& names);

// Returns the cells that the options ask for, where they name policies. Errors: InvalidArgument.
Result<std::vector<EvalCell>> CellsToMeasure(const EvalOptions& options);

}  // namespace swiftkv
