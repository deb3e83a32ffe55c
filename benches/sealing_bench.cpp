// SPDX-License-Identifier: Apache-2.0
// Measures what it costs to seal a block of SmolLM2-135M (30 layers x 3 heads x 64 channels): the
// codecs alone, and the whole of a step's bookkeeping, page faults included.
//
// One block is 16 tokens: at 1,000 tokens of prefill a second it may take 160 us of one thread
// before it costs 1 %.
#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <vector>

#include "cache/format_plan.h"
#include "cache/frame_recoding.h"
#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

std::vector<LayerShape> SmolLm2() { return std::vector<LayerShape>(30, {3, 64, 0}); }

struct FreeFrame {
  void operator()(std::byte* frame) const { std::free(frame); }
};
using Frame = std::unique_ptr<std::byte, FreeFrame>;

Frame NewFrame(std::size_t bytes) {
  return Frame(static_cast<std::byte*>(std::aligned_alloc(kPageAlignment, bytes)));
}

std::vector<float> NormalRows(std::size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> rows(count);
  for (float& value : rows) value = normal(random);
  return rows;
}

void RecodeOneBlock(benchmark::State& state, const char* key, const char* value) {
  const std::vector<LayerShape> layers = SmolLm2();
  const CacheGeometry geometry = CacheGeometry::For(layers).value();
  const FormatPlan plan = FormatPlan::For(layers, key, value).value();
  const BlockLayout open = BlockLayout::For(geometry, plan.open);
  const BlockLayout sealed = BlockLayout::For(geometry, plan.sealed);
  const Frame from = NewFrame(open.frame_bytes[0]);
  const Frame to = NewFrame(sealed.frame_bytes[0]);
  const std::vector<float> rows = NormalRows(std::size_t{16} * 64);
  for (const LayerPlace& place : open.places) {
    for (std::size_t head = 0; head < 3; ++head) {
      std::byte* const page = from.get() + place.layer_offset + head * place.head_stride;
      place.format.key->Encode(MutableKeyPlane(place.format, place.layout, 64, page), {0, 16},
                               rows.data(), 64);
      place.format.value->Encode(MutableValuePlane(place.format, place.layout, 64, page), {0, 16},
                                 rows.data(), 64);
    }
  }
  for (auto _ : state) {
    RecodeFrame(geometry.groups[0], {&open, from.get()}, {&sealed, to.get()}, kPageTokens);
    benchmark::ClobberMemory();
  }
}

// Reserves, stores and commits chunks of 512 tokens up to 4096; the time is that of one block, with
// the rows' own encoding.
void FillSequence(benchmark::State& state, const char* key, const char* value) {
  KvCacheOptions options;
  options.layers = SmolLm2();
  options.key_format = key;
  options.value_format = value;
  options.memory_bytes = 512U << 20;
  const auto cache = KvCache::Create(options).value();
  constexpr int kChunk = 512;
  constexpr int kChunks = 8;
  const std::vector<float> rows = NormalRows(std::size_t{kChunk} * 3 * 64);
  for (auto _ : state) {
    const SequenceId id = cache->CreateSequence().value();
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (!cache->Reserve(id, kChunk).ok()) state.SkipWithError("the cache is full");
      for (int layer = 0; layer < 30; ++layer) {
        cache->StoreRows({.sequence = id,
                          .layer = layer,
                          .first_position = cache->Length(id),
                          .num_tokens = kChunk,
                          .first_head = 0,
                          .end_head = 3,
                          .keys = rows.data(),
                          .values = rows.data(),
                          .token_stride = 3 * 64});
      }
      cache->Commit(id, kChunk);
    }
    cache->Release(id);
  }
  state.counters["us_per_block"] =
      benchmark::Counter(1e-6 * state.iterations() * kChunk * kChunks / 16,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK_CAPTURE(RecodeOneBlock, int4, "int4", "int4")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(RecodeOneBlock, k8v4, "int8", "int4")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(FillSequence, int4, "int4", "int4")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(FillSequence, k8v4, "int8", "int4")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(FillSequence, int8, "int8", "int8")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(FillSequence, f16, "f16", "f16")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace swiftkv
