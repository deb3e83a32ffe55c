// SPDX-License-Identifier: Apache-2.0
// Builds batches of attention over pages in shuffled frames of a plain buffer, for tests and
// benches.
//
// Every byte that no token was written to holds 0xFF, which is NaN in every float format, so a
// kernel that computes with an unused slot gives itself away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "swiftkv/attention.h"

namespace swiftkv {

struct RunSpec {
  std::string key_format = "f16";
  std::string value_format = "f16";
  int num_tokens = 0;  // a multiple of 16 unless the sequence's last dense run
  // One run per kv head, which keeps each token with the probability `kept` and its original
  // position.
  bool per_head = false;
  double kept = 0.7;
  std::vector<double> kept_of_heads = {};  // in place of `kept` where heads differ; one each
  // Covers the same tokens as the runs before it, which are per head: each head keeps here some of
  // what it dropped there, so that its runs interleave in position.
  bool beside = false;
};

// The first `tokens` tokens of a sequence lie in the frames of an earlier one, as after a fork.
// Leading runs must be the same in both; a run that is not wholly shared is dense.
struct SharedPrefix {
  int sequence = 0;
  int tokens = 0;  // within a page: that page is shared too
};

struct SequenceSpec {
  std::vector<RunSpec> runs;
  int num_rows = 1;  // the last positions of the sequence
  SharedPrefix shared = {};
};

struct PagedBatchSpec {
  AttentionShape shape;
  std::vector<SequenceSpec> sequences;
  std::uint32_t seed = 1;
  float magnitude = 1;  // standard deviation of keys, values and queries
  float key_bias = 0;   // added to one channel of all keys, as some models have it
};

// Owns the pages, queries and outputs of one batch.
class PagedBatch {
 public:
  explicit PagedBatch(const PagedBatchSpec& spec);
  PagedBatch(const PagedBatch&) = delete;
  PagedBatch& operator=(const PagedBatch&) = delete;

  // The batch; out and lse hold what the last Attend wrote.
  AttentionBatch batch();
  // The same with sums of probabilities; ClearScores zeroes them.
  AttentionBatch scored_batch();
  void ClearScores();

  std::span<const float> out() const { return out_; }
  std::span<const float> lse() const { return lse_; }
  std::span<const std::vector<float>> scores() const { return scores_; }
  std::span<const AttentionSequence> sequences() const { return sequences_; }

  // Fills out and lse with NaN.
  void SpoilResults();

 private:
  void AddRun(const PagedBatchSpec& spec, const RunSpec& run, std::int64_t first_position,
              std::vector<PageRun>* runs);
  // The positions that a kv head keeps in the runs of the sequence that is being added.
  std::set<std::int32_t> PositionsOf(const std::vector<PageRun>& runs, int head) const;
  void PlaceFrames();
  void ShareFrames(const PagedBatchSpec& spec, std::size_t sequence);
  void FillRun(const PagedBatchSpec& spec, const PageRun& run, int first_page);
  // Returns how many leading pages of a run lie in frames of an earlier sequence.
  int SharedPages(const PagedBatchSpec& spec, std::size_t sequence, std::size_t run) const;

  AttentionShape shape_;
  std::mt19937 random_;
  std::size_t frame_stride_ = 0;
  std::uint32_t num_frames_ = 0;
  std::vector<std::byte> storage_;
  std::byte* base_ = nullptr;                         // storage_, aligned to 64
  std::vector<std::vector<std::uint32_t>> frames_;    // one list per run
  std::vector<std::vector<std::int32_t>> positions_;  // one list per run, empty for dense ones
  std::vector<std::vector<PageRun>> runs_;            // one list per sequence
  std::vector<AttentionSequence> sequences_;
  std::vector<float> q_;                    // [rows, num_heads, head_dim]
  std::vector<float> out_;                  // [rows, num_heads, head_dim]
  std::vector<float> lse_;                  // [rows, num_heads]
  std::vector<std::vector<float>> scores_;  // per sequence, [num_kv_heads, slots]
  std::vector<std::span<float>> score_views_;
  ScoreSink sink_;
};

}  // namespace swiftkv
