// SPDX-License-Identifier: Apache-2.0
// Carries the rows of one forward pass as plain data.
#pragma once

#include <cstdint>
#include <span>

#include "model/query_sink.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {

using TokenId = std::int32_t;

// Consecutive tokens of one sequence, starting at its committed length.
struct BatchSlice {
  SequenceId sequence{};
  std::int64_t first_position = 0;  // == cache.Length(sequence)
  int first_row = 0;                // in ModelBatch::tokens
  int num_rows = 0;
  int num_outputs =
      0;  // logits wanted for the last n rows; 0 for a prefill chunk that is not the last
  QuerySink* queries = nullptr;  // receives the rows' queries of every layer; null: nobody does
};

struct ModelBatch {
  std::span<const TokenId> tokens;     // [rows]
  std::span<const BatchSlice> slices;  // ascending first_row, without gaps
};

}  // namespace swiftkv
