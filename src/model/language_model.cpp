// SPDX-License-Identifier: Apache-2.0
// Implements loading and forward passes of a model.
#include "model/language_model.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "base/check.h"
#include "base/cpu_features.h"
#include "base/status_macros.h"
#include "model/architecture.h"
#include "model/decoder_weights.h"
#include "model/fingerprint.h"
#include "model/forward_step.h"
#include "model/gguf_file.h"
#include "model/graph_runner.h"
#include "model/linear_choice.h"
#include "model/linear_layers.h"
#include "model/llama_guard.h"
#include "model/observed_probabilities.h"
#include "model/thread_count.h"
#include "model/tokenizer_metadata.h"
#include "model/weight_store.h"
#include "swiftkv/attention.h"

namespace swiftkv {
namespace {

constexpr int kMaxThreads = 512;   // ggml's limit
constexpr int kMaxRows = 1 << 16;  // of one Forward
constexpr int kLeastUsualRows = 128;
constexpr int kMostUsualRows = 512;
constexpr int kUnmeasuredRows = 256;

Status CheckOptions(const ModelOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return Status::InvalidArgument("threads must lie in [0, " + std::to_string(kMaxThreads) +
                                   "] (0: all cores), not " + std::to_string(options.threads));
  }
  if (options.max_batch_rows < 0 || options.max_batch_rows > kMaxRows) {
    return Status::InvalidArgument("rows of a step must lie in [0, " + std::to_string(kMaxRows) +
                                   "] (0: by measuring), not " +
                                   std::to_string(options.max_batch_rows));
  }
  return Status::Ok();
}

Result<DecoderSpec> DescribeFile(const GgufFile& file, int context) {
  SKV_ASSIGN_OR_RETURN(const std::string name, file.RequireString("general.architecture"));
  auto architecture = FindArchitecture(name);
  if (!architecture.ok()) return file.Unsupported(architecture.status().message());
  DecodeLimits limits;
  limits.context = context;
  return (*architecture)->Describe(file, limits);
}

}  // namespace

struct LanguageModel::State {
  Status Load(const ModelOptions& options, const ProgressCallback& progress);
  Status LoadWeights(const GgufFile& file, const ModelOptions& options,
                     const ProgressCallback& progress);
  Status ChooseLinear(const ModelOptions& options);
  void MeasureLinear(const LinearMemo& memo, bool repacked);
  int UsualRows() const;
  Status PrepareForward();
  Status CheckBatch(const KvCache& cache, const ModelBatch& batch) const;
  void WriteInputs(const ModelBatch& batch, DecoderGraph* graph) const;
  void DescribeRope();

  DecoderSpec spec;
  int context = 0;
  int threads = 0;
  int max_batch_rows = 0;
  std::string fingerprint;

  LinearChoice linear_choice;
  PackedLimit packed_limit;
  PackedWeights packed;
  DecoderWeights weights;  // tensors owned by `store`
  std::unique_ptr<WeightStore> store;
  std::unique_ptr<AttentionBackend> backend;
  std::unique_ptr<ForwardStep> step;
  std::vector<LayerHook> hooks;
  std::vector<RopeFrequencies> rope;  // [layers]
  std::unique_ptr<LinearLayers> linear;
  std::unique_ptr<GraphRunner> runner;
};

Status LanguageModel::State::LoadWeights(const GgufFile& file, const ModelOptions& options,
                                         const ProgressCallback& progress) {
  const std::vector<WeightSlot> slots = ListWeights(spec, &weights);
  WeightOptions weight_options;
  weight_options.use_extra_buffers = options.use_repacked_weights;
  weight_options.linear = &linear_choice;
  weight_options.progress = progress;
  SKV_ASSIGN_OR_RETURN(store, WeightStore::Load(file, slots, weight_options));
  return Status::Ok();
}

Status LanguageModel::State::ChooseLinear(const ModelOptions& options) {
  if (options.precise && options.linear != kMeasuredLinear && options.linear != "ggml") {
    return Status::InvalidArgument("precise models compute linear layers by ggml, not: " +
                                   options.linear);
  }
  SKV_ASSIGN_OR_RETURN(linear_choice,
                       LinearChoice::Create(options.precise ? "ggml" : options.linear));
  SKV_ASSIGN_OR_RETURN(packed_limit, ParsePackedLimit(options.packed_weights));
  return Status::Ok();
}

// What was measured holds for equal weights, CPUs and teams.
void LanguageModel::State::MeasureLinear(const LinearMemo& memo, bool repacked) {
  if (!linear_choice.measures()) return;
  const std::vector<const ggml_tensor*> matrices = ListMatrices(weights);
  const std::string key = fingerprint + "-" + std::to_string(threads) + "-" +
                          std::to_string(HostCpuSignature()) + "-" +
                          std::to_string(kLinearVersion) + (repacked ? "" : "-mapped");
  if (memo.recall != nullptr && linear_choice.Parse(memo.recall(key), matrices)) return;
  linear_choice.Measure(matrices, threads);
  if (memo.keep != nullptr) memo.keep(key, linear_choice.Text());
}

// A prefill's step delays the streams beside it: it is as long as kStallSeconds of linear work, but
// has rows enough that unpacking the weights stays below a quarter of it.
int LanguageModel::State::UsualRows() const {
  const double seconds_per_row = linear_choice.SecondsPerRow(ListMatrices(weights));
  if (seconds_per_row <= 0) return kUnmeasuredRows;
  const double rows = std::min<double>(kStallSeconds / seconds_per_row, kMostUsualRows);
  return std::max(kLeastUsualRows, static_cast<int>(rows) / kPageTokens * kPageTokens);
}

void LanguageModel::State::DescribeRope() {
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const ggml_tensor* factors = weights.layers[i].rope_factors;
    std::span<const float> values;
    if (factors != nullptr) {
      values = {static_cast<const float*>(factors->data), static_cast<std::size_t>(factors->ne[0])};
    }
    rope.push_back(FrequenciesOf(spec.layers[i].rope, values));
  }
}

Status LanguageModel::State::PrepareForward() {
  DescribeRope();
  step = std::make_unique<ForwardStep>(spec, *backend);
  SKV_RETURN_IF_ERROR(step->ReserveScratch(max_batch_rows, context));
  for (int i = 0; i < static_cast<int>(spec.layers.size()); ++i) hooks.push_back({step.get(), i});
  linear = std::make_unique<LinearLayers>(linear_choice, packed, threads);
  SKV_ASSIGN_OR_RETURN(
      runner, GraphRunner::Create({spec, weights, hooks, *linear}, threads, max_batch_rows));
  return Status::Ok();
}

Status LanguageModel::State::Load(const ModelOptions& options, const ProgressCallback& progress) {
  SKV_RETURN_IF_ERROR(CheckOptions(options));
  SKV_ASSIGN_OR_RETURN(backend, MakeAttentionBackend(options));
  SKV_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(options.path));
  SKV_ASSIGN_OR_RETURN(spec, DescribeFile(*file, options.context));
  SKV_RETURN_IF_ERROR(CheckTokenizerMetadata(*file));
  context = options.context > 0 ? options.context : spec.context_length;
  threads = options.threads > 0 ? options.threads : AvailableCores();
  max_batch_rows = options.max_batch_rows;
  SKV_ASSIGN_OR_RETURN(fingerprint, ModelFingerprint(*file));
  SKV_RETURN_IF_ERROR(ChooseLinear(options));
  SKV_RETURN_IF_ERROR(LoadWeights(*file, options, progress));
  MeasureLinear(options.linear_memo, options.use_repacked_weights);
  if (max_batch_rows == 0) max_batch_rows = UsualRows();
  max_batch_rows = std::min(max_batch_rows, context);
  SKV_RETURN_IF_ERROR(packed.Pack(ListMatrices(weights), linear_choice, packed_limit));
  return PrepareForward();
}

Result<std::unique_ptr<LanguageModel>> LanguageModel::Load(const ModelOptions& options,
                                                           const ProgressCallback& progress) {
  const LlamaGuard guard;  // ggml neither prints nor stops the process while it loads
  auto state = std::make_unique<State>();
  try {
    SKV_RETURN_IF_ERROR(state->Load(options, progress));
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("not enough memory to load " + options.path);
  } catch (const std::exception& error) {
    return Status::Internal("ggml failed to load " + options.path + ": " + error.what());
  }
  return std::unique_ptr<LanguageModel>(new LanguageModel(std::move(state)));
}

LanguageModel::LanguageModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LanguageModel::~LanguageModel() = default;

const DecoderSpec& LanguageModel::spec() const { return state_->spec; }
int LanguageModel::context() const { return state_->context; }
int LanguageModel::threads() const { return state_->threads; }
void LanguageModel::set_times(ForwardTimes* times) { state_->step->set_times(times); }
void LanguageModel::set_query_moments(QueryMoments* moments) {
  state_->step->set_query_moments(moments);
}
int LanguageModel::max_batch_rows() const { return state_->max_batch_rows; }
const std::string& LanguageModel::fingerprint() const { return state_->fingerprint; }

std::vector<LayerShape> LanguageModel::layer_shapes() const {
  std::vector<LayerShape> shapes;
  for (const DecoderLayerSpec& layer : state_->spec.layers) {
    shapes.push_back({layer.kv_heads, state_->spec.head_dim, layer.window});
  }
  return shapes;
}

ModelMemory LanguageModel::memory() const {
  ModelMemory memory;
  memory.mapped_weights_bytes = state_->store->mapped_bytes();
  memory.repacked_weights_bytes = state_->store->private_bytes();
  memory.linear_scratch_bytes = state_->linear->scratch_bytes();
  memory.packed_weights_bytes = state_->packed.bytes();
  memory.activation_bytes = state_->runner->memory_bytes() + state_->step->scratch_bytes() +
                            state_->linear->scratch_bytes();
  memory.touched_activation_bytes = state_->runner->touched_bytes() +
                                    state_->step->touched_scratch_bytes() +
                                    state_->linear->touched_scratch_bytes();
  return memory;
}

Status LanguageModel::State::CheckBatch(const KvCache& cache, const ModelBatch& batch) const {
  const auto rows = static_cast<std::int64_t>(batch.tokens.size());
  if (rows < 1 || rows > max_batch_rows) {
    return Status::InvalidArgument("a step takes 1 to " + std::to_string(max_batch_rows) +
                                   " rows, not " + std::to_string(rows));
  }
  for (const TokenId token : batch.tokens) {
    if (token < 0 || token >= spec.vocab_size) {
      return Status::InvalidArgument("token ids lie in [0, " + std::to_string(spec.vocab_size) +
                                     "), not " + std::to_string(token));
    }
  }
  std::int64_t next_row = 0;
  for (const BatchSlice& slice : batch.slices) {
    SKV_CHECK(slice.first_row == next_row && slice.num_rows > 0, "slices leave gaps");
    SKV_CHECK(slice.num_outputs >= 0 && slice.num_outputs <= slice.num_rows);
    SKV_CHECK(slice.first_position == cache.Length(slice.sequence), "rows follow the cache");
    if (slice.first_position + slice.num_rows > context) {
      return Status::InvalidArgument("a sequence holds at most the context's " +
                                     std::to_string(context) + " tokens, not " +
                                     std::to_string(slice.first_position + slice.num_rows));
    }
    next_row += slice.num_rows;
  }
  SKV_CHECK(next_row == rows, "slices cover every row");
  return Status::Ok();
}

void LanguageModel::State::WriteInputs(const ModelBatch& batch, DecoderGraph* graph) const {
  std::memcpy(graph->tokens->data, batch.tokens.data(), batch.tokens.size_bytes());
  auto* position = static_cast<std::int32_t*>(graph->positions->data);
  auto* output = graph->output_rows == nullptr
                     ? nullptr
                     : static_cast<std::int32_t*>(graph->output_rows->data);
  for (const BatchSlice& slice : batch.slices) {
    for (int i = 0; i < slice.num_rows; ++i) {
      *position++ = static_cast<std::int32_t>(slice.first_position + i);
      const bool wanted = i >= slice.num_rows - slice.num_outputs;
      if (output != nullptr && wanted) *output++ = slice.first_row + i;
    }
  }
}

const RopeFrequencies& LanguageModel::rope(int layer) const {
  return state_->rope[static_cast<std::size_t>(layer)];
}

Status LanguageModel::SumProbabilities(const KvCache& cache, SequenceId sequence, int layer,
                                       const RecentQueries& queries, std::span<float> sums) const {
  std::vector<PageRun> runs;
  cache.AppendRuns(sequence, layer, 0, &runs);
  SKV_CHECK(queries.first_position(layer) + queries.count(layer) == cache.Length(sequence),
            "the newest query is the last token's");
  return swiftkv::SumProbabilities(*state_->backend,
                                   {.shape = state_->step->shape(layer),
                                    .runs = runs,
                                    .queries = queries,
                                    .layer = layer,
                                    .threads = state_->threads},
                                   sums);
}

Result<std::span<const float>> LanguageModel::Forward(KvCache* cache, const ModelBatch& batch,
                                                      const std::atomic<bool>* cancel) {
  State& state = *state_;
  SKV_RETURN_IF_ERROR(state.CheckBatch(*cache, batch));
  SKV_RETURN_IF_ERROR(state.store->CheckFiles());
  SKV_RETURN_IF_ERROR(state.step->Prepare(cache, batch));
  GraphShape shape;
  shape.rows = static_cast<int>(batch.tokens.size());
  for (const BatchSlice& slice : batch.slices) shape.outputs += slice.num_outputs;
  shape.merge = state.step->needs_merge();
  shape.queries = state.step->captures();
  SKV_ASSIGN_OR_RETURN(DecoderGraph * graph, state.runner->Prepare(shape));
  state.WriteInputs(batch, graph);
  SKV_RETURN_IF_ERROR(state.runner->Compute(graph, cancel));
  if (graph->logits == nullptr) return std::span<const float>();
  const std::size_t count =
      static_cast<std::size_t>(shape.outputs) * static_cast<std::size_t>(state.spec.vocab_size);
  return std::span(static_cast<const float*>(graph->logits->data), count);
}

}  // namespace swiftkv
