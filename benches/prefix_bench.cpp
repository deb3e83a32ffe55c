// SPDX-License-Identifier: Apache-2.0
// Measures the prefix index where it is large: a look-up, an adoption, and a step's publication and
// eviction, with up to 100,000 findable blocks.
//
// Frames are as small as they can be, so that the index itself is what is measured. A prompt of
// 8,192 tokens is worth seconds of computing: a look-up may take a millisecond.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "swiftkv/kv_cache.h"

namespace swiftkv {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kPromptTokens = 8192;
constexpr std::size_t kPromptBlocks = kPromptTokens / kPageTokens;

Tokens PromptOf(std::uint32_t seed) {
  Tokens tokens;
  std::uint32_t x = seed * 2654435761U + 1;
  for (std::size_t i = 0; i < kPromptTokens + 1; ++i) {
    x = x * 1664525U + 1013904223U;
    tokens.push_back(static_cast<std::int32_t>(x >> 16));
  }
  return tokens;
}

void Serve(KvCache* cache, const Tokens& prompt) {
  const SequenceId id = cache->CreateSequence({}, PrefixScope{}).value();
  const std::int64_t known = cache->AdoptPrefix(id, prompt).value().tokens;
  const auto rest = std::span(prompt).subspan(static_cast<std::size_t>(known));
  if (!cache->Reserve(id, static_cast<int>(rest.size())).ok()) return;
  cache->Commit(id, rest);
  cache->Release(id);
}

// A cache whose index holds about `blocks` blocks, in prompts of 512.
std::unique_ptr<KvCache> FilledCache(std::int64_t blocks, std::uint64_t memory_bytes) {
  KvCacheOptions options;
  options.layers = {{1, 16, 0}};
  options.memory_bytes = memory_bytes;
  std::unique_ptr<KvCache> cache = KvCache::Create(options).value();
  for (std::int64_t i = 0; i < blocks / static_cast<std::int64_t>(kPromptBlocks); ++i) {
    Serve(cache.get(), PromptOf(static_cast<std::uint32_t>(i)));
  }
  return cache;
}

void FindPrompt(benchmark::State& state) {
  const auto cache = FilledCache(state.range(0), std::uint64_t{1} << 30);
  const auto prompts = static_cast<std::uint32_t>(state.range(0)) / kPromptBlocks;
  std::uint32_t next = 0;
  Tokens prompt;
  for (auto _ : state) {
    state.PauseTiming();
    prompt = PromptOf(next++ * 7 % prompts);
    state.ResumeTiming();
    const PrefixHit hit = cache->FindPrefix({}, {}, prompt);
    if (hit.tokens != static_cast<std::int64_t>(kPromptTokens)) state.SkipWithError("no hit");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kPromptBlocks));
}
BENCHMARK(FindPrompt)->Arg(1024)->Arg(102400)->Unit(benchmark::kMicrosecond);

void AdoptAndRelease(benchmark::State& state) {
  const auto cache = FilledCache(state.range(0), std::uint64_t{1} << 30);
  const auto prompts = static_cast<std::uint32_t>(state.range(0)) / kPromptBlocks;
  std::uint32_t next = 0;
  Tokens prompt;
  for (auto _ : state) {
    state.PauseTiming();
    prompt = PromptOf(next++ * 7 % prompts);
    state.ResumeTiming();
    const SequenceId id = cache->CreateSequence({}, PrefixScope{}).value();
    benchmark::DoNotOptimize(cache->AdoptPrefix(id, prompt).value());
    cache->Release(id);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kPromptBlocks));
}
BENCHMARK(AdoptAndRelease)->Arg(1024)->Arg(102400)->Unit(benchmark::kMicrosecond);

// A beginning that nobody has sent, and, where `known` is set, one that the oldest of more scopes
// than are looked at knows: what its reason costs at most.
void FindBeginning(benchmark::State& state, bool known) {
  KvCacheOptions options;
  options.layers = {{1, 16, 0}};
  options.memory_bytes = std::uint64_t{1} << 28;
  const std::unique_ptr<KvCache> cache = KvCache::Create(options).value();
  for (std::uint32_t tenant = 0; tenant < 100; ++tenant) {
    PrefixScope scope;
    scope.tenant_salt = std::to_string(tenant);
    Tokens own = PromptOf(tenant);
    own.resize(64);
    const SequenceId id = cache->CreateSequence({}, scope).value();
    if (!cache->Reserve(id, 64).ok()) return state.SkipWithError("no room");
    cache->Commit(id, own);
    cache->Release(id);
  }
  const Tokens prompt = PromptOf(known ? 0 : 1000000);
  for (auto _ : state) benchmark::DoNotOptimize(cache->FindPrefix({}, {}, prompt));
}
BENCHMARK_CAPTURE(FindBeginning, unknown, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(FindBeginning, known_elsewhere, true)->Unit(benchmark::kMicrosecond);

// Every block that is published evicts another: the bound is full.
void PublishAndEvict(benchmark::State& state) {
  const auto cache = FilledCache(state.range(0), static_cast<std::uint64_t>(state.range(0)) * 1300);
  std::uint32_t next = 1000000;
  Tokens prompt;
  for (auto _ : state) {
    state.PauseTiming();
    prompt = PromptOf(next++);
    state.ResumeTiming();
    Serve(cache.get(), prompt);
  }
  state.counters["evicted"] = static_cast<double>(cache->prefix_counters().evicted_blocks);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kPromptBlocks));
}
BENCHMARK(PublishAndEvict)->Arg(102400)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace swiftkv
