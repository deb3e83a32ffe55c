// SPDX-License-Identifier: Apache-2.0
// Lists what `bench attention` measures: one case for each row, from the options alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "swiftkv/status.h"
#include "tools/bench_attention_options.h"
#include "tools/bench_pages.h"

namespace swiftkv {

enum class BenchPhase : std::uint8_t { kDecode, kCascade, kPrefill };

const char* BenchPhaseName(BenchPhase phase);

struct AttentionCase {
  BenchPhase phase = BenchPhase::kDecode;
  Isa isa = Isa::kPortable;
  std::string format;
  BenchPagesSpec pages;
  // Of a cascade: the same sequences with nothing shared. Of decode on segments: with nothing
  // removed.
  BenchPagesSpec private_pages;
};

// Names as in docs/json.md. What does not apply to a phase has no value.
struct AttentionRow {
  AttentionCase what;
  double us = 0;  // of a pass
  std::optional<double> stream_gb_s;
  std::optional<double> fraction;      // of the stream
  std::optional<double> raw_fraction;  // of a plain read of the same pages
  std::optional<double> us_private;    // of as many calls with nothing shared
  std::optional<double> ratio;         // us_private / us
  std::optional<double> us_dense;      // of as many calls with nothing removed
  std::optional<double> speedup;       // us_dense / us
  std::optional<double> bound_us;  // the larger of reading every byte once, and of the operations
                                   // at the rate of prefill
  std::optional<double> bound_ratio;    // us / bound_us
  std::optional<double> peak_fraction;  // of the machine's operations with the row's set
  int rounds = 0;
  int rejected = 0;   // passes repeated because something took the processor
  int disturbed = 0;  // passes that count although repeating did not help
};

double GbPerSecond(const AttentionRow& row);
double GflopPerSecond(const AttentionRow& row);

// Returns the cases in the order of rows. Formats named one by one must be served; of `all` those
// that are not are left out. Errors: InvalidArgument, Unsupported.
Result<std::vector<AttentionCase>> ListAttentionCases(const BenchAttentionOptions& options);

// Fills bound_us and bound_ratio of cascades from the prefill rows of the same kernels.
void AddCascadeBounds(std::vector<AttentionRow>* rows);

}  // namespace swiftkv
