// SPDX-License-Identifier: Apache-2.0
// Measures the prompt speed of four layers of a 7B-class model (Llama 3 8B's shape, random Q4_K
// weights made in memory) with each linear backend.
//
// Compare the rows of one run: --benchmark_enable_random_interleaving=true
// --benchmark_repetitions=5. scratch_MiB is what unpacked panels take, beside the activations.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "ggml-cpp.h"
#include "ggml.h"
#include "gguf.h"
#include "model/language_model.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kFeedForward = 14336;
constexpr std::int64_t kVocabulary = 512;
constexpr std::uint32_t kHeads = 32;
constexpr std::uint32_t kKvHeads = 8;
constexpr std::uint32_t kHeadDim = 128;
constexpr std::uint32_t kLayers = 4;
constexpr int kRows = 512;
constexpr std::int64_t kDistinctRows = 64;  // of a matrix; the others repeat them

// A model file that exists in memory only.
class GeometryFile {
 public:
  GeometryFile() : descriptor_(memfd_create("geometry", MFD_CLOEXEC)) {
    SKV_CHECK(descriptor_ >= 0, "files in memory can be made");
    const std::size_t bytes = std::size_t{1} << 30;
    tensors_.reset(ggml_init({bytes, nullptr, /*no_alloc=*/false}));
    file_.reset(gguf_init_empty());
    Keys();
    Floats("token_embd.weight", kHidden, kVocabulary);
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) Layer(layer);
    Floats("output_norm.weight", kHidden, 1);
    Floats("output.weight", kHidden, kVocabulary);
    SKV_CHECK(gguf_write_to_file(file_.get(), path().c_str(), /*only_meta=*/false));
    tensors_.reset();
  }
  ~GeometryFile() { close(descriptor_); }
  GeometryFile(const GeometryFile&) = delete;
  GeometryFile& operator=(const GeometryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  void Keys() {
    gguf_set_val_str(file_.get(), "general.architecture", "llama");
    gguf_set_val_str(file_.get(), "tokenizer.ggml.model", "none");
    const auto number = [&](const char* key, std::int64_t value) {
      gguf_set_val_u32(file_.get(), (std::string("llama.") + key).c_str(),
                       static_cast<std::uint32_t>(value));
    };
    number("vocab_size", kVocabulary);
    number("block_count", kLayers);
    number("context_length", 8192);
    number("embedding_length", kHidden);
    number("feed_forward_length", kFeedForward);
    number("attention.head_count", kHeads);
    number("attention.head_count_kv", kKvHeads);
    gguf_set_val_f32(file_.get(), "llama.attention.layer_norm_rms_epsilon", 1e-5F);
  }

  void Layer(std::uint32_t layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    constexpr std::int64_t kKv = kKvHeads * kHeadDim;
    Floats(block + "attn_norm.weight", kHidden, 1);
    Floats(block + "ffn_norm.weight", kHidden, 1);
    Matrix(block + "attn_q.weight", kHidden, kHidden);
    Matrix(block + "attn_k.weight", kHidden, kKv);
    Matrix(block + "attn_v.weight", kHidden, kKv);
    Matrix(block + "attn_output.weight", kHidden, kHidden);
    Matrix(block + "ffn_gate.weight", kHidden, kFeedForward);
    Matrix(block + "ffn_up.weight", kHidden, kFeedForward);
    Matrix(block + "ffn_down.weight", kFeedForward, kHidden);
  }

  std::vector<float> Values(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
      value = static_cast<float>(static_cast<std::int32_t>(state_ >> 33) - (1 << 30)) * 0x1p-36F;
    }
    return values;
  }

  void Floats(const std::string& name, std::int64_t columns, std::int64_t rows) {
    ggml_tensor* tensor = ggml_new_tensor_2d(tensors_.get(), GGML_TYPE_F32, columns, rows);
    const std::vector<float> values = Values(columns * rows);
    std::memcpy(tensor->data, values.data(), values.size() * sizeof(float));
    Add(name, tensor);
  }

  void Matrix(const std::string& name, std::int64_t columns, std::int64_t rows) {
    ggml_tensor* tensor = ggml_new_tensor_2d(tensors_.get(), GGML_TYPE_Q4_K, columns, rows);
    const std::vector<float> values = Values(columns * kDistinctRows);
    auto* data = static_cast<std::byte*>(tensor->data);
    const std::size_t bytes = ggml_quantize_chunk(GGML_TYPE_Q4_K, values.data(), data, 0,
                                                  kDistinctRows, columns, nullptr);
    for (std::size_t at = bytes; at < ggml_nbytes(tensor); at += bytes) {
      std::memcpy(data + at, data, bytes);
    }
    Add(name, tensor);
  }

  void Add(const std::string& name, ggml_tensor* tensor) {
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(file_.get(), tensor);
  }

  int descriptor_;
  ggml_context_ptr tensors_;
  gguf_context_ptr file_;
  std::uint64_t state_ = 1;
};

void BM_Prompt(benchmark::State& state, const std::string& linear) {
  static const GeometryFile file;
  ModelOptions options;
  options.path = file.path();
  options.context = kRows;
  options.max_batch_rows = kRows;
  options.linear = linear;
  auto model = LanguageModel::Load(options, nullptr);
  SKV_CHECK(model.ok(), "the geometry loads");
  KvCacheOptions cache_options;
  cache_options.layers = (*model)->layer_shapes();
  cache_options.memory_bytes = std::uint64_t{64} << 20U;
  auto cache = KvCache::Create(cache_options);
  SKV_CHECK(cache.ok(), "a cache can be made");
  std::vector<TokenId> tokens(kRows);
  for (int i = 0; i < kRows; ++i) tokens[static_cast<std::size_t>(i)] = i * 7 % kVocabulary;
  for (auto _ : state) {
    const Result<SequenceId> sequence = (*cache)->CreateSequence();
    SKV_CHECK(sequence.ok() && (*cache)->Reserve(*sequence, kRows).ok());
    const BatchSlice slice = {.sequence = *sequence, .num_rows = kRows};
    SKV_CHECK((*model)->Forward(cache->get(), {tokens, std::span(&slice, 1)}, nullptr).ok());
    (*cache)->Release(*sequence);
  }
  state.counters["tokens/s"] =
      benchmark::Counter(kRows, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["scratch_MiB"] =
      static_cast<double>((*model)->memory().linear_scratch_bytes) / (1 << 20);
}

BENCHMARK_CAPTURE(BM_Prompt, ggml, "ggml")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Prompt, bytes, "bytes")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Prompt, onednn, "onednn")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Prompt, chosen, "auto")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace swiftkv
