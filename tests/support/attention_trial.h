// SPDX-License-Identifier: Apache-2.0
// Computes one batch with every attention backend that this machine runs and compares the results
// with the reference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/paged_batch.h"
#include "swiftkv/attention.h"

namespace swiftkv {

// Absolute error, relative above 1: rounding of f32 sums; and that of queries and weights to 16-bit
// integers, 2^-16 of the largest of 64; of 32 terms added up in f16; to one bf16; or of queries
// to 8-bit integers.
inline constexpr float kFloatBound = 2e-5F;
inline constexpr float kLimbBound = 2e-4F;
inline constexpr float kHalfBound = 5e-3F;
inline constexpr float kTileBound = 1e-2F;
inline constexpr float kOneLimbBound = 3e-2F;

struct NamedBackend {
  std::string name;  // "cpu/avx2"
  std::unique_ptr<AttentionBackend> backend;
  float bound = kFloatBound;
  bool tiled = false;   // multiplies tiles of many vectors in matrix registers
  bool limbs = false;   // computes with int8 and int4 pages in bytes
  bool halves = false;  // computes with fp8 pages in f16
};

// Returns the bound of a backend on a batch: wider where matrix registers meet formats of fewer
// than 16 bits, f16 meets fp8, or bytes meet keys of int4.
float BoundOf(const NamedBackend& tested, const PagedBatchSpec& spec);

// Every row of the table but the reference, in each form that this machine runs, and with
// emulated matrix registers.
std::vector<NamedBackend> BackendsUnderTest();

std::unique_ptr<AttentionBackend> ReferenceBackendUnderTest();

struct AttentionOutcome {
  std::vector<float> out;
  std::vector<float> lse;
  std::vector<std::vector<float>> scores;  // per sequence
};

// Computes out, lse and scores; what Attend returns is expected to be OK.
AttentionOutcome Compute(const AttentionBackend& backend, PagedBatch* paged, int num_threads);

// Expects each value to be within `bound` of the expected one, absolute, and relative above 1. NaN
// is far from everything; equal infinities are near.
void ExpectNear(const std::string& what, const std::vector<float>& actual,
                const std::vector<float>& expected, float bound);

// Compares out, lse and scores of all backends with the reference on one batch.
void ExpectAllAgree(const std::string& what, const PagedBatchSpec& spec);

AttentionShape ShapeOf(int head_dim, int kv_heads, int group);

// A sequence of one dense run.
SequenceSpec Dense(int num_tokens, int num_rows, const std::string& key_format = "f16",
                   const std::string& value_format = "f16");

}  // namespace swiftkv
