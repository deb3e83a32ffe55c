// SPDX-License-Identifier: Apache-2.0
// Prepares what one forward pass asks of cache and attention, layer by layer, before it runs.
//
// Owner: the model. Prepare() runs on the owner's thread; while the graph computes, Store(),
// Capture(), Attend() and Merge() are called by every thread of ggml's team with (thread,
// num_threads), one layer after the other with a barrier between the three. Vectors keep their
// capacity from step to step.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_memory.h"
#include "base/process_memory.h"
#include "model/decoder_spec.h"
#include "model/forward_times.h"
#include "model/model_batch.h"
#include "model/query_moments.h"
#include "swiftkv/attention.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"

namespace swiftkv {

// K and V of a layer as the graph computed them.
struct ComputedKv {
  const float* keys = nullptr;    // [rows, key_stride]: head h's row starts at h * head_dim
  const float* values = nullptr;  // [rows, value_stride]
  std::size_t key_stride = 0;     // floats between two rows
  std::size_t value_stride = 0;
};

// Queries of a layer as the graph computed them; head h's row starts at h * head_dim.
struct ComputedQueries {
  const float* plain = nullptr;   // before RoPE, [rows, plain_stride]
  const float* turned = nullptr;  // after RoPE, [rows, turned_stride]
  std::size_t plain_stride = 0;   // floats between two rows
  std::size_t turned_stride = 0;
};

class ForwardStep {
 public:
  ForwardStep(const DecoderSpec& spec, const AttentionBackend& backend);

  // Allocates the scratch of the largest steps that are usual: `max_rows` rows of one sequence at
  // the end of `context` tokens, and one row each of some sequences of that length. Larger batches
  // of decodes allocate more when they come. Errors: ResourceExhausted.
  Status ReserveScratch(int max_rows, int context);

  // Collects the runs of every layer and plans attention once for each group of equal layers. Where
  // a sequence stands on a compressed segment, whose extents differ from layer to layer, each of
  // the group's layers gets a plan of its own.
  // Errors: Unsupported where the backend does not serve a sequence's format; ResourceExhausted for
  // scratch.
  Status Prepare(KvCache* cache, const ModelBatch& batch);

  // Whether any layer's partial results need Merge().
  bool needs_merge() const { return needs_merge_; }
  // Whether any slice has a sink for its queries, so that Capture() is wanted.
  bool captures() const { return captures_; }
  const AttentionShape& shape(int layer) const {
    return groups_[layers_[static_cast<std::size_t>(layer)].group].shape;
  }
  std::size_t scratch_bytes() const { return scratch_size_; }
  std::uint64_t touched_scratch_bytes() const {
    return TouchedBytes(scratch_.get(), scratch_size_);
  }

  // Adds the time of what follows to `times`, which outlives it; null, as at first, measures
  // nothing.
  void set_times(ForwardTimes* times) { times_ = times; }

  // Adds the queries of what follows to `moments`, which outlives it; null, as at first, adds none.
  void set_query_moments(QueryMoments* moments) { query_moments_ = moments; }

  void Store(int layer, const ComputedKv& kv, int thread, int num_threads) const;
  // Hands the rows' queries to the sinks of their slices, any time before Attend().
  void Capture(int layer, const ComputedQueries& queries, int thread, int num_threads) const;
  void Attend(int layer, const float* q, float* out, AttentionTeam team) const;
  void Merge(int layer, const float* q, float* out, AttentionTeam team) const;

 private:
  struct Group {
    AttentionShape shape;
    std::unique_ptr<AttentionPlan> plan;  // of its layers whose extents are equal
  };
  struct Layer {
    std::size_t group = 0;
    std::unique_ptr<AttentionPlan> own_plan;   // where extents are those of no other layer
    std::vector<PageRun> runs;                 // of all slices
    std::vector<AttentionSequence> sequences;  // one per slice; spans into runs
  };

  double* AttentionSeconds(int thread) const {
    return times_ == nullptr || thread != 0 ? nullptr : &times_->attention_seconds;
  }
  void CollectRuns(int layer, const ModelBatch& batch);
  Status CheckServed(const Layer& layer) const;
  void PlanLayer(int layer);
  const AttentionPlan& PlanOf(int layer) const;
  AttentionBatch BatchOf(int layer) const;
  Status EnsureScratch(std::size_t bytes);

  const AttentionBackend& backend_;
  std::vector<Group> groups_;
  std::vector<Layer> layers_;
  KvCache* cache_ = nullptr;
  std::vector<BatchSlice> slices_;
  int num_rows_ = 0;                   // of all slices
  std::vector<std::size_t> run_ends_;  // Prepare's: of each slice in Layer::runs
  bool needs_merge_ = false;
  bool captures_ = false;
  ForwardTimes* times_ = nullptr;  // written by thread 0 only
  QueryMoments* query_moments_ = nullptr;
  AlignedBytes scratch_;
  std::size_t scratch_size_ = 0;
};

}  // namespace swiftkv
