// SPDX-License-Identifier: Apache-2.0
// Measures a model's query statistics on a text, for prefixes that bring no queries. Layer: engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/query_figures.h"
#include "model/language_model.h"
#include "model/vocabulary.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct QueryMeasurement {
  std::span<const TokenId> tokens;  // of the text, without BOS
  TokenId bos = kNoToken;           // first of every window; none where the model adds none
  int window = 2048;                // tokens that are computed as one text, at most the context
  std::uint64_t kv_bytes = 0;       // bound on the cache of a window; 0: what it needs
};

// Runs the text window by window and returns mean and covariance of every query head before RoPE,
// of layers without a window; `fingerprint` is left empty. Errors: InvalidArgument for no tokens;
// ResourceExhausted where a window passes the bound; those of Forward.
Result<ModelQueryFigures> MeasureQueryFigures(LanguageModel* model, const QueryMeasurement& task,
                                              const ProgressCallback& progress,
                                              const std::atomic<bool>* cancel);

}  // namespace swiftkv
