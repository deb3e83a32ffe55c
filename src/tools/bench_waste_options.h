// SPDX-License-Identifier: Apache-2.0
// Holds the options of `swiftkv bench waste` and reads them from its command line.
#pragma once

#include <span>
#include <string>

#include "engine/option_field.h"
#include "swiftkv/status.h"
#include "tools/bench_lengths.h"
#include "tools/bench_waste_geometry.h"

namespace swiftkv {

struct BenchWasteOptions {
  std::string lengths = "sharegpt";
  int batch = 16;
  int requests = 128;
  int seed = 1;
  NameList allocators{{"all"}};
  NameList geometries{{"all"}};
  NameList formats{{"all"}};
  NumberList block_sizes{{8, 16, 32, 64, 128}};
  MemoryLimit memory;
  bool json = false;
  std::string svg;
};

// A visitor also hears the heading of each group: visit.Group(name).
template <typename Visitor>
void VisitOptions(Visitor&& visit, BenchWasteOptions& options) {
  visit.Group("Requests");
  visit(OptionField{.flags = "--lengths",
                    .key = "lengths",
                    .placeholder = "NAME",
                    .help = "Lengths of requests, at most 2,048 tokens",
                    .choices = LengthNames},
        options.lengths);
  visit(OptionField{"--batch", "batch", "N", "Requests that are served at a time", 1, 1024},
        options.batch);
  visit(OptionField{"--requests", "requests", "N",
                    "Requests in the queue; measured until it cannot fill the batch", 1, 1 << 20},
        options.requests);
  visit(OptionField{"--seed", "seed", "N", "Seed of the lengths", 0}, options.seed);
  visit.Group("Rows");
  visit(OptionField{"--allocators", "allocators", "LIST",
                    "Of paged, contiguous_max, contiguous_pow2 and contiguous_exact; all"},
        options.allocators);
  visit(OptionField{.flags = "--geometry",
                    .key = "geometries",
                    .placeholder = "LIST",
                    .help = "Models whose cache is filled; no weights are needed",
                    .choices = CacheShapeNames},
        options.geometries);
  visit(OptionField{"--formats", "formats", "LIST",
                    "Formats of the cache; all: those of --kv, f32 left out"},
        options.formats);
  visit(OptionField{"--block-sizes", "block_sizes", "LIST",
                    "Tokens of a block, compared on paper over the same requests", 1, 2048},
        options.block_sizes);
  visit.Group("Measurement");
  visit(OptionField{"--kv-memory", "kv_memory", "SIZE",
                    "Most memory that a row may take; auto: seven eighths of what the machine or "
                    "cgroup leaves"},
        options.memory);
  visit(OptionField{"--json", "json", "", "Print one JSON object on one line, and nothing else"},
        options.json);
  visit(OptionField{"--svg", "svg", "FILE", "Write a chart there as well"}, options.svg);
}

// Reads the arguments that follow `bench waste`. Errors: InvalidArgument for what can never work;
// Cancelled with the help as its message where help was asked for.
Result<BenchWasteOptions> ParseBenchWasteOptions(std::span<const char* const> arguments);

}  // namespace swiftkv
