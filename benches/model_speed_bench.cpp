// SPDX-License-Identifier: Apache-2.0
// Measures tokens per second of a real model over the paged cache: prefill of 512 tokens and decode
// of 128, as llama-bench's pp512 and tg128 do, on an empty cache and behind 4,096 tokens.
//
// The model is $SWIFTKV_MODEL. Compare with llama-bench of the pinned tree (`make peers`) at -fa 0
// and 1, run in turns on a machine that does nothing else.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "model/language_model.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

constexpr int kChunk = 512;  // rows of one step
constexpr int kDecoded = 128;
constexpr int kDeep = 4096;  // tokens before the measured ones

// One sequence of the model, loaded once for all rows.
class Session {
 public:
  static Session* Get() {
    static Session session;
    return &session;
  }

  // Empty where the model was loaded.
  const std::string& error() const { return error_; }

  void Restart() {
    cache_->Release(sequence_);
    sequence_ = cache_->CreateSequence().value();
  }

  // Appends tokens that are different at every position; returns whether that worked.
  bool Append(int count, int outputs) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(count));
    const std::int64_t length = cache_->Length(sequence_);
    for (int i = 0; i < count; ++i) {
      tokens[static_cast<std::size_t>(i)] =
          static_cast<TokenId>((length + i) * 37 % (model_->spec().vocab_size / 2) + 100);
    }
    BatchSlice slice;
    slice.sequence = sequence_;
    slice.first_position = length;
    slice.num_rows = count;
    slice.num_outputs = outputs;
    if (!cache_->Reserve(sequence_, count).ok()) return false;
    if (!model_->Forward(cache_.get(), {tokens, std::span(&slice, 1)}, nullptr).ok()) return false;
    cache_->Commit(sequence_, count);
    return true;
  }

  bool Fill(int depth) {
    for (int done = 0; done < depth; done += kChunk) {
      if (!Append(kChunk, 0)) return false;
    }
    return true;
  }

 private:
  Session() {
    const char* path = std::getenv("SWIFTKV_MODEL");
    ModelOptions options;
    options.path = path == nullptr ? "" : path;
    options.max_batch_rows = kChunk;
    auto model = LanguageModel::Load(options, nullptr);
    if (!model.ok()) {
      error_ = "set SWIFTKV_MODEL to a GGUF: " + model.status().message();
      return;
    }
    model_ = std::move(*model);
    KvCacheOptions cache;
    cache.layers = model_->layer_shapes();
    cache.memory_bytes = std::uint64_t{2} << 30;
    cache_ = KvCache::Create(cache).value();
    sequence_ = cache_->CreateSequence().value();
  }

  std::string error_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<KvCache> cache_;
  SequenceId sequence_{};
};

// Runs `measured` behind `depth` tokens; the time of filling is not counted.
template <typename Measured>
void Run(benchmark::State& state, int tokens, Measured measured) {
  Session* session = Session::Get();
  if (!session->error().empty()) {
    state.SkipWithError(session->error().c_str());
    return;
  }
  for (auto iteration : state) {
    (void)iteration;
    state.PauseTiming();
    session->Restart();
    const bool filled = session->Fill(static_cast<int>(state.range(0))) && session->Append(1, 1);
    state.ResumeTiming();
    if (!filled || !measured(session)) {
      state.SkipWithError("the model or its cache refused a step");
      return;
    }
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(tokens) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void Prefill(benchmark::State& state) {
  Run(state, kChunk, [](Session* session) { return session->Append(kChunk, 1); });
}

void Decode(benchmark::State& state) {
  Run(state, kDecoded, [](Session* session) {
    for (int i = 0; i < kDecoded; ++i) {
      if (!session->Append(1, 1)) return false;
    }
    return true;
  });
}

// Filling takes far longer than what is measured, so that the number of runs is fixed.
void Rows(benchmark::internal::Benchmark* bench) {
  bench->ArgName("depth")->Arg(0)->Arg(kDeep)->Iterations(1)->Repetitions(3);
  bench->ReportAggregatesOnly()->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(Prefill)->Apply(Rows);
BENCHMARK(Decode)->Apply(Rows);

}  // namespace
}  // namespace swiftkv
