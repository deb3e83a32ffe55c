// SPDX-License-Identifier: Apache-2.0
// Defines the seam of attention: queries of a batch of sequences over ragged page views. Layer:
// attention.
//
// A backend never allocates a page and never sees a sequence id or a reference count. One call
// serves one layer for all rows of a step. It runs in three phases with a barrier between, each
// called once by every thread of the caller's team with (thread, num_threads): Partial -> Merge ->
// Score. Work is split into items by rules that do not look at the number of threads, and partial
// results merge in a fixed order, so results never depend on num_threads.
//
// For a query row at position i of head h with kv head g = h / gqa, over the visible slots j
// (position_j <= i, and i - position_j < window where there is a window):
//     s_j = scale * dot(q, k_j);  s_j = softcap * tanh(s_j / softcap) where softcap > 0
//     out = sum_j exp(s_j - m) v_j / sum_j exp(s_j - m),  m = max_j s_j
// A row that sees no slot gives zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "swiftkv/page_view.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct AttentionShape {
  int num_heads = 0;     // query heads
  int num_kv_heads = 0;  // divides num_heads
  int head_dim = 0;
  float scale = 0;    // usually 1 / sqrt(head_dim)
  float softcap = 0;  // 0: none
  int window = 0;     // 0: none
};

// One sequence's query rows of this step and the pages they may see.
struct AttentionSequence {
  std::span<const PageRun> runs;    // oldest first; includes the rows' own tokens, already stored
  int first_row = 0;                // rows [first_row, first_row + num_rows) of q and out
  int num_rows = 0;                 // consecutive positions
  std::int64_t first_position = 0;  // position of the first row
};

// Receives, summed over rows and the query heads of a group, the probabilities that slots got.
struct ScoreSink {
  // One per sequence of the batch, each [num_kv_heads, slots of the sequence's runs in order] and
  // zeroed by the caller; an empty span skips the sequence.
  std::span<const std::span<float>> sums;
};

struct AttentionBatch {
  AttentionShape shape;
  std::span<const AttentionSequence> sequences;
  const float* q = nullptr;  // [rows, num_heads, head_dim] f32, post-RoPE
  float* out = nullptr;      // [rows, num_heads, head_dim] f32
  float* lse =
      nullptr;  // optional [rows, num_heads]: m + log(sum), -inf for a row that sees nothing
  const ScoreSink* sink = nullptr;  // optional; needs lse
};

// How a batch is cut into work; valid for every layer with the same shape whose runs have the same
// extents and whose sequences have the same pages in common. Backends derive from it.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  virtual std::size_t scratch_bytes() const = 0;  // for one layer; reused by the next
  virtual bool needs_merge() const = 0;           // false: Partial already wrote every row of out
};

struct AttentionTeam {
  int thread = 0;
  int num_threads = 1;
  std::byte* scratch = nullptr;  // plan.scratch_bytes(), aligned to 64, shared by the team
};

struct BackendInfo {
  const char* name;         // "reference", "cpu"
  const char* description;  // one line
};

class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;

  virtual const BackendInfo& info() const = 0;

  // Errors: Unsupported naming the head size, ratio of heads or format that this backend does not
  // compute.
  virtual Status Serves(const AttentionShape& shape, const PageFormat& format) const = 0;

  // Cuts the batch. Looks at the shape, at the extents of rows and runs and at where pages lie, for
  // those that several sequences hold are read once; never at q, out or page contents.
  virtual std::unique_ptr<AttentionPlan> Plan(const AttentionBatch& batch) const = 0;

  virtual void Partial(const AttentionBatch& batch, const AttentionPlan& plan,
                       const AttentionTeam& team) const = 0;
  virtual void Merge(const AttentionBatch& batch, const AttentionPlan& plan,
                     const AttentionTeam& team) const = 0;
  // Does nothing without a sink.
  virtual void Score(const AttentionBatch& batch, const AttentionPlan& plan,
                     const AttentionTeam& team) const = 0;
};

// Runs all phases with `num_threads` threads of its own: for callers without a team, e.g. tests and
// programs that embed the cache. Errors: what Serves returns.
Status Attend(const AttentionBackend& backend, const AttentionBatch& batch, int num_threads);

// One row of the table of backends.
struct BackendRow {
  BackendInfo info;
  // Makes the backend for `isa` ("auto" or a name that the message of the error lists).
  Result<std::unique_ptr<AttentionBackend>> (*make)(std::string_view isa);
};

std::span<const BackendRow> AllAttentionBackends();

// Errors: InvalidArgument with the list of names.
Result<std::unique_ptr<AttentionBackend>> MakeAttentionBackend(std::string_view name,
                                                               std::string_view isa);

}  // namespace swiftkv
