// SPDX-License-Identifier: Apache-2.0
// Measures the rows of `bench waste`: what part of allocated memory holds no token.
//
// What an allocated slot is used for is told as in PagedAttention's figure 2 (Kwon et al.,
// arXiv:2309.06180): it holds a token; it is reserved for one that its request will still store; it
// is held by a request that will never fill it (internal fragmentation); or no request holds it
// though its memory is in use (external fragmentation). All allocators serve the same requests in
// the same steps and are looked at after each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "swiftkv/status.h"
#include "tools/bench_waste_options.h"

namespace swiftkv {

// Of all slots that were allocated in all steps; the four add up to 1.
struct SlotShares {
  double filled = 0;
  double reserved = 0;
  double internal = 0;
  double external = 0;

  double waste() const { return reserved + internal + external; }
};

// Names as in docs/json.md.
struct WasteRow {
  std::string allocator;
  std::string format;
  std::string geometry;
  SlotShares slots;
  double waste_bytes_fraction = 0;  // of resident bytes in all steps
  std::uint64_t filled_bytes = 0;   // of a step on average
  std::uint64_t resident_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
  std::uint64_t pool_bytes = 0;  // the bound
};

struct SkippedRow {
  std::string allocator;
  std::string format;
  std::string geometry;
  std::string reason;
};

struct BlockSizeRow {
  int block_tokens = 0;
  SlotShares slots;
};

struct WasteBenchResult {
  std::int64_t steps = 0;
  double mean_prompt = 0;  // tokens of the drawn requests
  double mean_output = 0;
  double mean_tokens = 0;  // that the whole batch holds in a step
  std::vector<WasteRow> rows;
  std::vector<SkippedRow> skipped;  // the machine or --kv-memory has too little memory
  std::vector<BlockSizeRow> block_sizes;
};

// Called at times with the share that is done and what is being measured; returning false ends the
// bench early, with the rows so far.
using WasteBenchProgress = std::function<bool(double done, const std::string& row)>;

// Errors: those of ParseBenchWasteOptions; Internal where the kernel tells nothing.
Result<WasteBenchResult> RunWasteBench(const BenchWasteOptions& options,
                                       const WasteBenchProgress& progress);

}  // namespace swiftkv
