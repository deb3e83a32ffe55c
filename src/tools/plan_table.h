// SPDX-License-Identifier: Apache-2.0
// Computes the rows of a plan: one for each fraction that is forgotten and each format of the
// cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "swiftkv/status.h"
#include "tools/plan_options.h"
#include "tools/plan_shape.h"

namespace swiftkv {

struct PlanRow {
  std::string format;
  std::string policy;  // "none" where nothing is forgotten
  double ratio = 0;    // fraction removed
  std::string quality;

  std::uint64_t bytes_per_token = 0;
  std::uint64_t growth_bytes = 0;       // of a token beyond all windows
  std::uint64_t bytes_per_request = 0;  // at its end
  std::uint64_t bookkeeping_bytes = 0;  // beside them, of a cache with that request alone
  // If every query head had a K and V of its own; none where no format serves such rows.
  std::optional<std::uint64_t> unshared_bytes;
  std::uint64_t windowless_bytes = 0;  // if every layer kept every token
  std::uint64_t batch_bytes = 0;       // the bound that the batch needs, prefix once
  std::uint64_t guide_bytes = 0;       // beside the cache, of formats with scales
  std::uint64_t needed_bytes = 0;      // both, weights, activations and headroom
  std::int64_t max_context = 0;        // of each request of the batch
  std::int64_t max_concurrent = 0;
  std::int64_t max_concurrent_contiguous = 0;
  std::int64_t max_concurrent_shared = 0;
  bool batch_fits = false;
  std::optional<double> cost_per_million;
};

struct PlanTable {
  PlanModel model;
  int context = 0;
  int reserve = 0;  // tokens of a contiguous reservation

  std::uint64_t memory_bytes = 0;
  std::uint64_t activation_bytes = 0;
  std::uint64_t headroom_bytes = 0;
  std::uint64_t kv_memory_bytes = 0;  // what is left

  std::vector<PlanRow> rows;  // f16 first
};

// Errors: those of the model's source; InvalidArgument where no format serves the model's heads or
// the prefix is longer than the context; Internal where the machine does not tell its memory.
Result<PlanTable> MakePlanTable(const PlanOptions& options);

}  // namespace swiftkv
