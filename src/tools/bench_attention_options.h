// SPDX-License-Identifier: Apache-2.0
// Holds the options of `swiftkv bench attention` and reads them from its command line.
#pragma once

#include <span>
#include <string>

#include "engine/option_field.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct BenchAttentionOptions {
  NameList phases{{"decode", "cascade", "prefill"}};
  NameList formats{{"all"}};
  NumberList head_dims{{64, 128, 256}};
  NumberList gqa{{0}};          // query heads of a kv head; 0: as models of that head size have
  NumberList contexts{{8192}};  // of decode
  NumberList batches{{1, 16}};
  int shared_tokens = 8192;  // of cascade
  NumberList prefill_contexts{{512, 6500}};
  NameList ratios{{"0"}};    // removed, of decode
  std::string isa = "auto";  // or "all"
  int threads = 0;           // 0: the cores that this process may use
  int rounds = 5;
  int megabytes = 640;  // of distinct pages in a pass
  bool huge_pages = false;
  bool shuffled = true;  // frames; else in the order of tokens
  bool json = false;
};

// A visitor also hears the heading of each group: visit.Group(name).
template <typename Visitor>
void VisitOptions(Visitor&& visit, BenchAttentionOptions& options) {
  visit.Group("Rows");
  visit(OptionField{"--phases", "phases", "LIST", "Some of decode, cascade and prefill"},
        options.phases);
  visit(OptionField{"--formats", "formats", "LIST",
                    "Formats of pages; all: those of --kv that the kernels compute, f32 left out"},
        options.formats);
  visit(OptionField{"--head-dims", "head_dims", "LIST", "Head sizes", 16, 1024}, options.head_dims);
  visit(OptionField{"--gqa", "gqa", "LIST",
                    "Query heads of a kv head; 0: as models of that head size have", 0, 64},
        options.gqa);
  visit(OptionField{"--contexts", "contexts", "LIST", "Tokens of a sequence that decodes", 1,
                    1 << 20},
        options.contexts);
  visit(OptionField{"--batches", "batches", "LIST", "Sequences decoded together", 1, 1024},
        options.batches);
  visit(
      OptionField{"--shared", "shared", "TOKENS",
                  "Tokens that the sequences of a cascade share, rounded up to pages", 16, 1 << 20},
      options.shared_tokens);
  visit(OptionField{"--prefill-contexts", "prefill_contexts", "LIST",
                    "Tokens of a sequence whose last 512 are computed together", 1, 1 << 20},
        options.prefill_contexts);
  visit(OptionField{"--ratios", "ratios", "LIST",
                    "Shares of the tokens that were dropped before decode, from 0, which is always "
                    "measured, to below 1; heads keep unlike numbers"},
        options.ratios);
  visit.Group("Measurement");
  visit(OptionField{"--isa", "isa", "NAME",
                    "Instruction set of the kernels; all: each that the CPU has"},
        options.isa);
  visit(OptionField{"-t,--threads", "threads", "N",
                    "Threads that compute; 0: the cores that this process may use", 0, 512},
        options.threads);
  visit(OptionField{"--rounds", "rounds", "N",
                    "Passes of each kind, taken in turn; slow rows do fewer, at least 3", 1, 1000},
        options.rounds);
  visit(OptionField{"--megabytes", "megabytes", "N",
                    "Least size of the distinct pages that a pass of decode reads", 1, 1 << 16},
        options.megabytes);
  visit(OptionField{"--huge-pages", "huge_pages", "", "Let memory be of 2 MiB pages"},
        options.huge_pages);
  visit(OptionField{"--no-shuffle", "shuffled", "",
                    "Lay frames in the order of tokens, as a fresh cache does"},
        options.shuffled);
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line, and nothing else"},
        options.json);
}

// Reads the arguments that follow `bench attention`. Errors: InvalidArgument or Unsupported for
// what can never work, before anything is measured; Cancelled with the help as its message where
// help was asked for.
Result<BenchAttentionOptions> ParseBenchAttentionOptions(std::span<const char* const> arguments);

}  // namespace swiftkv
