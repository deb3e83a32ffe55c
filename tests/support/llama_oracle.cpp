// SPDX-License-Identifier: Apache-2.0
// Wraps a llama_model and a llama_context behind Status and plain vectors.
#include "support/llama_oracle.h"

#include <llama.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/check.h"

namespace swiftkv {
namespace {

// Silences libllama while it lives and keeps its last error, since its functions return no reasons.
// What was installed before is put back, because our own loader has a log of its own.
class LogCapture {
 public:
  LogCapture() {
    llama_log_get(&previous_, &previous_data_);
    llama_log_set(&LogCapture::Receive, this);
  }
  ~LogCapture() { llama_log_set(previous_, previous_data_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::string LastError() {
    const std::lock_guard lock(mutex_);
    return last_error_.empty() ? "no reason given" : last_error_;
  }

 private:
  static void Receive(ggml_log_level level, const char* text, void* self) {
    if (level != GGML_LOG_LEVEL_ERROR) return;
    auto* capture = static_cast<LogCapture*>(self);
    const std::lock_guard lock(capture->mutex_);
    capture->last_error_ = text;
    while (!capture->last_error_.empty() && capture->last_error_.back() == '\n') {
      capture->last_error_.pop_back();
    }
  }

  ggml_log_callback previous_ = nullptr;
  void* previous_data_ = nullptr;
  std::mutex mutex_;
  std::string last_error_;
};

ggml_type CacheType(OracleCache cache) {
  switch (cache) {
    case OracleCache::kF32:
      return GGML_TYPE_F32;
    case OracleCache::kF16:
      return GGML_TYPE_F16;
    case OracleCache::kQ8_0:
      return GGML_TYPE_Q8_0;
  }
  return GGML_TYPE_F32;
}

llama_context_params ContextParams(const OracleOptions& options) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options.context);
  params.n_batch = static_cast<uint32_t>(options.max_chunk);
  params.n_ubatch = params.n_batch;
  params.n_threads = options.threads;
  params.n_threads_batch = options.threads;
  params.flash_attn_type =
      options.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = CacheType(options.cache);
  params.type_v = CacheType(options.cache);
  // Window layers keep everything and mask: the plainest form, and any chunk fits.
  params.swa_full = true;
  params.no_perf = true;
  return params;
}

}  // namespace

struct LlamaOracle::Impl {
  llama_model* model = nullptr;
  llama_context* context = nullptr;
  const llama_vocab* vocab = nullptr;
  int max_chunk = 0;

  ~Impl() {
    const LogCapture log;  // freeing logs, too
    if (context != nullptr) llama_free(context);
    if (model != nullptr) llama_model_free(model);
  }
};

LlamaOracle::LlamaOracle(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LlamaOracle::~LlamaOracle() = default;

Result<std::unique_ptr<LlamaOracle>> LlamaOracle::Load(const std::string& path,
                                                       const OracleOptions& options) {
  LogCapture log;
  llama_backend_init();
  auto impl = std::make_unique<Impl>();
  llama_model_params params = llama_model_default_params();
  params.use_extra_bufts = options.extra_buffers;
  params.n_gpu_layers = 0;
  impl->model = llama_model_load_from_file(path.c_str(), params);
  if (impl->model == nullptr) {
    return Status::InvalidArgument("libllama cannot load " + path + ": " + log.LastError());
  }
  impl->vocab = llama_model_get_vocab(impl->model);
  impl->max_chunk = options.max_chunk;
  impl->context = llama_init_from_model(impl->model, ContextParams(options));
  if (impl->context == nullptr) {
    return Status::Internal("libllama cannot make a context for " + path + ": " + log.LastError());
  }
  return std::unique_ptr<LlamaOracle>(new LlamaOracle(std::move(impl)));
}

int LlamaOracle::vocabulary_size() const { return llama_vocab_n_tokens(impl_->vocab); }

std::vector<int32_t> LlamaOracle::Tokenize(const std::string& text, bool add_special) const {
  std::vector<int32_t> tokens(text.size() + 2);
  const int count = llama_tokenize(impl_->vocab, text.data(), static_cast<int32_t>(text.size()),
                                   tokens.data(), static_cast<int32_t>(tokens.size()), add_special,
                                   /*parse_special=*/true);
  SKV_CHECK(count >= 0, "no text has more tokens than bytes, BOS and EOS");
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

std::string LlamaOracle::Text(std::span<const int32_t> tokens) const {
  std::string text;
  std::string piece(256, '\0');
  for (const int32_t token : tokens) {
    const int size = llama_token_to_piece(impl_->vocab, token, piece.data(),
                                          static_cast<int32_t>(piece.size()), 0, true);
    if (size > 0) text.append(piece.data(), static_cast<size_t>(size));
  }
  return text;
}

bool LlamaOracle::EndsGeneration(int32_t token) const {
  return llama_vocab_is_eog(impl_->vocab, token);
}

Result<Logits> LlamaOracle::Append(std::span<const int32_t> tokens) {
  return Decode(tokens, /*all_rows=*/true);
}

Result<Logits> LlamaOracle::AppendForLast(std::span<const int32_t> tokens) {
  return Decode(tokens, /*all_rows=*/false);
}

Result<Logits> LlamaOracle::Decode(std::span<const int32_t> tokens, bool all_rows) {
  const auto count = static_cast<int>(tokens.size());
  if (count < 1 || count > impl_->max_chunk) {
    return Status::InvalidArgument("a chunk has 1 to " + std::to_string(impl_->max_chunk) +
                                   " tokens, not " + std::to_string(count));
  }
  llama_batch batch = llama_batch_init(count, 0, 1);
  batch.n_tokens = count;
  for (int i = 0; i < count; ++i) {
    batch.token[i] = tokens[static_cast<size_t>(i)];
    batch.pos[i] = length_ + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = all_rows || i == count - 1 ? 1 : 0;
  }
  LogCapture log;
  const int failed = llama_decode(impl_->context, batch);
  llama_batch_free(batch);
  if (failed != 0) {
    return Status::Internal("llama_decode returned " + std::to_string(failed) + ": " +
                            log.LastError());
  }
  length_ += count;
  Logits logits;
  logits.rows = all_rows ? count : 1;
  logits.vocabulary = vocabulary_size();
  for (int i = count - logits.rows; i < count; ++i) {
    const float* row = llama_get_logits_ith(impl_->context, i);
    logits.values.insert(logits.values.end(), row, row + logits.vocabulary);
  }
  return logits;
}

Status LlamaOracle::Forget(std::span<const int32_t> positions) {
  llama_memory_t memory = llama_get_memory(impl_->context);
  for (size_t first = 0; first < positions.size();) {
    size_t end = first + 1;
    while (end < positions.size() && positions[end] == positions[end - 1] + 1) ++end;
    if (!llama_memory_seq_rm(memory, 0, positions[first], positions[end - 1] + 1)) {
      return Status::Unsupported("libllama cannot forget the tokens from position " +
                                 std::to_string(positions[first]));
    }
    first = end;
  }
  return Status::Ok();
}

void LlamaOracle::Clear() {
  llama_memory_clear(llama_get_memory(impl_->context), /*data=*/true);
  length_ = 0;
}

Result<Logits> AppendInChunks(LlamaOracle* oracle, std::span<const int32_t> tokens, int chunk) {
  Logits all;
  for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(chunk)) {
    const size_t size = std::min(static_cast<size_t>(chunk), tokens.size() - begin);
    Result<Logits> part = oracle->Append(tokens.subspan(begin, size));
    if (!part.ok()) return part;
    all.rows += part->rows;
    all.vocabulary = part->vocabulary;
    all.values.insert(all.values.end(), part->values.begin(), part->values.end());
  }
  return all;
}

Result<std::vector<int32_t>> GreedyTokens(LlamaOracle* oracle, std::span<const int32_t> prompt,
                                          int count) {
  std::vector<int32_t> chosen;
  Result<Logits> logits = oracle->AppendForLast(prompt);
  while (true) {
    if (!logits.ok()) return logits.status();
    const int32_t token = ArgMax(logits->Row(0));
    chosen.push_back(token);
    if (static_cast<int>(chosen.size()) == count || oracle->EndsGeneration(token)) return chosen;
    logits = oracle->AppendForLast(std::span(&token, 1));
  }
}

Status RewriteWeights(const std::string& from, const std::string& to, OracleWeights weights) {
  LogCapture log;
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.allow_requantize = true;
  params.nthread = 2;
  switch (weights) {
    case OracleWeights::kF32:
      params.ftype = LLAMA_FTYPE_ALL_F32;
      break;
    case OracleWeights::kF16:
      params.ftype = LLAMA_FTYPE_MOSTLY_F16;
      break;
    case OracleWeights::kQ8_0:
      params.ftype = LLAMA_FTYPE_MOSTLY_Q8_0;
      break;
    case OracleWeights::kQ4_K:
      params.ftype = LLAMA_FTYPE_MOSTLY_Q4_K_M;
      break;
    case OracleWeights::kQ4_1:
      params.ftype = LLAMA_FTYPE_MOSTLY_Q4_1;
      break;
  }
  if (llama_model_quantize(from.c_str(), to.c_str(), &params) != 0) {
    return Status::Internal("libllama cannot rewrite the weights of " + from + ": " +
                            log.LastError());
  }
  return Status::Ok();
}

}  // namespace swiftkv
