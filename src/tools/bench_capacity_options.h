// SPDX-License-Identifier: Apache-2.0
// Holds the options of `swiftkv bench capacity` and reads them from its command line.
#pragma once

#include <span>
#include <string>

#include "engine/engine_options.h"
#include "engine/option_field.h"
#include "swiftkv/status.h"
#include "tools/bench_lengths.h"

namespace swiftkv {

struct BenchCapacityOptions {
  std::string lengths = "sharegpt";
  int requests = 64;
  int shared_tokens = 0;
  int seed = 1;
  NumberList reservations{{2}};
  NameList allocators{{"all"}};
  NameList formats{{"f16", "int8", "k8v4"}};
  int max_length = kMostRequestTokens;
  int batch = 64;
  bool json = false;
  ModelOptions model;  // its context is max_length
};

// A visitor also hears the heading of each group: visit.Group(name).
template <typename Visitor>
void VisitOptions(Visitor&& visit, BenchCapacityOptions& options) {
  visit.Group("Requests");
  visit(OptionField{.flags = "--lengths",
                    .key = "lengths",
                    .placeholder = "NAME",
                    .help = "Lengths of requests",
                    .choices = LengthNames},
        options.lengths);
  visit(OptionField{"--requests", "requests", "N", "Requests, all of which wait from the start", 1,
                    1 << 20},
        options.requests);
  visit(OptionField{"--shared", "shared", "TOKENS",
                    "Tokens that every prompt begins with, on top of the drawn length", 0, 1 << 20},
        options.shared_tokens);
  visit(OptionField{"--seed", "seed", "N", "Seed of lengths and tokens", 0}, options.seed);
  visit.Group("Rows");
  visit(OptionField{"--reservations", "reservations", "LIST",
                    "Memory of the cache: what so many requests of --max-length take in f16", 1,
                    1024},
        options.reservations);
  visit(OptionField{"--allocators", "allocators", "LIST",
                    "Of paged, contiguous_max, contiguous_pow2 and contiguous_exact; all"},
        options.allocators);
  visit(OptionField{"--formats", "formats", "LIST",
                    "Formats of the paged cache; all: those of --kv, f32 left out. Reservations "
                    "are measured in f16"},
        options.formats);
  visit(OptionField{"--max-length", "max_length", "N",
                    "Longest request that is served, prompt and reply; lengths are cut to it", 2,
                    1 << 20},
        options.max_length);
  visit(
      OptionField{"--batch", "batch", "N", "Requests that are computed together at most", 1, 65536},
      options.batch);
  visit.Group("Measurement");
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line, and nothing else"},
        options.json);
  visit.Group("Model");
  VisitModelPath(visit, options.model);
  VisitComputing(visit, options.model);
}

// Reads the arguments that follow `bench capacity`. Errors: InvalidArgument or Unsupported for what
// can never work, before anything is loaded; Cancelled with the help as its message where help was
// asked for.
Result<BenchCapacityOptions> ParseBenchCapacityOptions(std::span<const char* const> arguments);

}  // namespace swiftkv
