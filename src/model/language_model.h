// SPDX-License-Identifier: Apache-2.0
// Loads a GGUF model and computes logits of batches over the paged cache.
//
// Owner: one thread (the engine's) calls Forward; the OpenMP team of the tensor library and
// attention share the same threads. No type of ggml or llama.cpp leaves this header.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/decoder_spec.h"
#include "model/forward_times.h"
#include "model/model_batch.h"
#include "model/query_moments.h"
#include "model/recent_queries.h"
#include "model/rope_frequencies.h"
#include "swiftkv/attention.h"
#include "swiftkv/kv_cache.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Keeps texts by key (letters, digits, - and _) between loads. Either may be empty; a text that
// does not suit is measured anew.
struct LinearMemo {
  std::function<std::string(const std::string& key)> recall;  // "" where there is none
  std::function<void(const std::string& key, const std::string& text)> keep;
};

// Returns what ModelOptions::linear accepts, with commas between.
std::string LinearBackendNames();

// The word that leaves the choice of a linear backend to measuring.
inline constexpr const char* kMeasuredLinear = "auto";

// The longest that a stream should wait for a token because of a prompt, in seconds.
inline constexpr double kStallSeconds = 0.25;

struct ModelOptions {
  std::string path;  // a GGUF; of a split model the first shard
  int threads = 0;   // 0: the cores that this process may use
  int context = 0;   // 0: the model's maximum; above it is refused
  std::string attention_backend = "cpu";
  std::string isa = "auto";          // of the attention kernels
  bool precise = false;              // attention in f32 throughout, linear layers by ggml
  bool use_repacked_weights = true;  // ggml's extra buffer types: AMX and repack
  // The backend of linear layers, or "auto": the fastest for each weight and number of rows, by
  // measuring at load. Precise models take ggml's.
  std::string linear = kMeasuredLinear;
  // Memory for weights kept unpacked where that speeds many rows up: "off", "auto" or a size.
  std::string packed_weights = "off";
  LinearMemo linear_memo;  // where measured choices are kept; without it every load measures
  // Most rows of one Forward; 0: as many as keep a step short, but unpacking of weights cheap.
  int max_batch_rows = 0;
};

// Makes the backend that the options ask for. Errors: InvalidArgument and Unsupported with what is
// accepted.
Result<std::unique_ptr<AttentionBackend>> MakeAttentionBackend(const ModelOptions& options);

// Bytes outside the cache, for people and for --kv-memory auto.
struct ModelMemory {
  std::uint64_t mapped_weights_bytes = 0;    // in the page cache, shared with other processes
  std::uint64_t repacked_weights_bytes = 0;  // private copies in a layout for this CPU
  std::uint64_t packed_weights_bytes = 0;    // unpacked copies for many rows
  // Graph buffers and the scratch of attention and linear layers. What a step of max_batch_rows of
  // one sequence with one output takes, from the start; more outputs or sequences take more once
  // they come.
  std::uint64_t activation_bytes = 0;
  std::uint64_t touched_activation_bytes = 0;  // of these, what lies in memory by now
  std::uint64_t linear_scratch_bytes = 0;      // of these, what unpacked panels of weights take
};

// Called with done in [0, 1] while weights load; returning false cancels.
using ProgressCallback = std::function<bool(double done)>;

class LanguageModel {
 public:
  // Errors: NotFound, DataLoss, Unsupported, InvalidArgument, ResourceExhausted, Cancelled; each
  // names the thing.
  static Result<std::unique_ptr<LanguageModel>> Load(const ModelOptions& options,
                                                     const ProgressCallback& progress);
  ~LanguageModel();
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  const DecoderSpec& spec() const;
  int context() const;  // tokens that one sequence may hold
  int threads() const;
  int max_batch_rows() const;
  // SHA-256 in hex over metadata and tensor names, shapes, types and sampled bytes: equal for equal
  // weights.
  const std::string& fingerprint() const;
  // Shapes for KvCacheOptions::layers.
  std::vector<LayerShape> layer_shapes() const;
  ModelMemory memory() const;

  // Adds what coming Forwards spend on attention to `times`, which outlives them; null, as at
  // first, measures nothing and costs nothing.
  void set_times(ForwardTimes* times);

  // Adds the queries of coming Forwards to `moments`, which outlives them; null, as at first, adds
  // none. The last layer's count only in steps that want logits.
  void set_query_moments(QueryMoments* moments);

  // How the layer's rotary embedding turns queries and keys.
  const RopeFrequencies& rope(int layer) const;

  // Adds up the probabilities that the slots of a layer got from the newest queries of a sequence,
  // by attending anew: `sums`, [kv_heads, slots of KvCache::AppendRuns(sequence, layer, 0)], is
  // overwritten with sums over queries and the query heads of a group. The newest query is that of
  // the last committed token. Errors: Unsupported where the backend does not serve a run's format.
  Status SumProbabilities(const KvCache& cache, SequenceId sequence, int layer,
                          const RecentQueries& queries, std::span<float> sums) const;

  // Computes the batch: stores the rows' K/V into their reserved slots and returns the wanted
  // logits, [outputs, vocab_size] f32 in slice order, valid until the next call. Reserve comes
  // before, Commit after: neither is done here. Errors: InvalidArgument for an id outside the
  // vocabulary or too many rows; Cancelled when `cancel` became true (the reserved slots then hold
  // unspecified values).
  Result<std::span<const float>> Forward(KvCache* cache, const ModelBatch& batch,
                                         const std::atomic<bool>* cancel);

 private:
  struct State;
  explicit LanguageModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace swiftkv
