// SPDX-License-Identifier: Apache-2.0
// Measures attention of the cpu backend: decoding as a fraction of the machine's read bandwidth,
// prefill as GFLOP/s.
//
// Decode rows stream at least 600 MB of distinct pages in shuffled frames. `fraction` is their rate
// over that of a plain read of the same number of bytes by the same number of threads, measured
// once at the start.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention_pages.h"
#include "base/cpu_features.h"
#include "base/thread_team.h"

namespace swiftkv {
namespace {

constexpr int kThreads = 2;
constexpr double kStreamedBytes = 640e6;

AttentionShape ShapeOf(int head_dim, int kv_heads, int group) {
  return {.num_heads = kv_heads * group,
          .num_kv_heads = kv_heads,
          .head_dim = head_dim,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

// Sums a stretch of words, each line asked for 4 KiB ahead: what a kernel that reads pages in
// order could do at best.
std::uint64_t SumWords(const std::uint64_t* words, std::size_t count) {
  constexpr std::size_t kAhead = 512;
  std::uint64_t lanes[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    __builtin_prefetch(words + i + kAhead);
    for (std::size_t lane = 0; lane < 8; ++lane) lanes[lane] += words[i + lane];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t lane : lanes) sum += lane;
  return sum;
}

// Returns the bytes per second at which the threads sum up a large buffer, the best of some runs.
double ReadBandwidth(ThreadTeam* team) {
  const std::vector<std::uint64_t> buffer(static_cast<std::size_t>(kStreamedBytes) / 8, 1);
  std::vector<std::uint64_t> sums(kThreads);
  double best = 0;
  for (int run = 0; run < 9; ++run) {
    const auto start = std::chrono::steady_clock::now();
    team->Run([&](int thread, int count) {
      const std::size_t part = buffer.size() / static_cast<std::size_t>(count);
      const auto index = static_cast<std::size_t>(thread);
      sums[index] = SumWords(buffer.data() + part * index, part);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(buffer.size()) * 8 / seconds.count());
  }
  benchmark::DoNotOptimize(sums.data());
  return best;
}

// One layer's attention, computed again and again with one plan, as a graph's layers do.
class Step {
 public:
  Step(const std::string& isa, const PagesSpec& spec, ThreadTeam* team)
      : pages_(spec), team_(team) {
    auto made = MakeAttentionBackend("cpu", isa);
    backend_ = std::move(*made);
    plan_ = backend_->Plan(pages_.batch());
    scratch_.resize(plan_->scratch_bytes() + kPageAlignment);
    void* aligned = scratch_.data();
    std::size_t space = scratch_.size();
    aligned_ =
        static_cast<std::byte*>(std::align(kPageAlignment, plan_->scratch_bytes(), aligned, space));
  }

  void Run() {
    const AttentionBatch batch = pages_.batch();
    team_->Run([&](int thread, int count) {
      backend_->Partial(batch, *plan_, {thread, count, aligned_});
    });
    if (!plan_->needs_merge()) return;
    team_->Run([&](int thread, int count) {
      backend_->Merge(batch, *plan_, {thread, count, aligned_});
    });
  }

  std::size_t bytes() const { return pages_.bytes(); }

 private:
  AttentionPages pages_;
  ThreadTeam* team_;
  std::unique_ptr<AttentionBackend> backend_;
  std::unique_ptr<AttentionPlan> plan_;
  std::vector<std::byte> scratch_;
  std::byte* aligned_;
};

struct Case {
  std::string isa;
  PagesSpec spec;
};

void Decode(benchmark::State& state, const Case& decode, ThreadTeam* team, double bandwidth) {
  Step step(decode.isa, decode.spec, team);
  for (auto _ : state) step.Run();
  const double bytes = static_cast<double>(step.bytes());
  const double streamed = bytes * static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(streamed / 1e9, benchmark::Counter::kIsRate);
  state.counters["fraction"] =
      benchmark::Counter(streamed / bandwidth, benchmark::Counter::kIsRate);
}

void Prefill(benchmark::State& state, const Case& prefill, ThreadTeam* team) {
  Step step(prefill.isa, prefill.spec, team);
  for (auto _ : state) step.Run();
  const PagesSpec& spec = prefill.spec;
  const double seen = spec.rows * (spec.tokens - (spec.rows - 1) / 2.0);  // (row, slot) pairs
  const double flops = 4.0 * seen * spec.shape.num_heads * spec.shape.head_dim *
                       spec.num_sequences * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(flops / 1e9, benchmark::Counter::kIsRate);
}

std::string NameOf(const std::string& phase, const Case& which) {
  const PagesSpec& spec = which.spec;
  return phase + "/" + which.isa + "/" + spec.format + "/d" + std::to_string(spec.shape.head_dim) +
         "/kv" + std::to_string(spec.shape.num_kv_heads) + "/gqa" +
         std::to_string(spec.shape.num_heads / spec.shape.num_kv_heads) + "/context" +
         std::to_string(spec.tokens) + "/rows" + std::to_string(spec.rows) + "/batch" +
         std::to_string(spec.num_sequences);
}

void RegisterDecode(const Case& which, ThreadTeam* team, double bandwidth) {
  benchmark::RegisterBenchmark(NameOf("decode", which).c_str(), Decode, which, team, bandwidth)
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

void RegisterPrefill(const Case& which, ThreadTeam* team) {
  benchmark::RegisterBenchmark(NameOf("prefill", which).c_str(), Prefill, which, team)
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

void RegisterAll(ThreadTeam* team, double bandwidth) {
  const AttentionShape decode_shapes[] = {ShapeOf(64, 3, 3), ShapeOf(128, 8, 4), ShapeOf(128, 2, 8),
                                          ShapeOf(256, 1, 4), ShapeOf(64, 8, 1)};
  const AttentionShape prefill_shapes[] = {ShapeOf(64, 3, 3), ShapeOf(128, 8, 4),
                                           ShapeOf(256, 1, 4)};
  for (const Isa isa : AllIsas()) {
    if (!Runs(HostCpu(), isa)) continue;
    for (const std::string format : {"f32", "f16", "bf16"}) {
      for (const AttentionShape& shape : decode_shapes) {
        constexpr int kTokens = 8192;
        const int value_bytes = format == "f32" ? 4 : 2;
        const double per_sequence =
            2.0 * value_bytes * shape.head_dim * shape.num_kv_heads * kTokens;
        const int sequences = static_cast<int>(std::ceil(kStreamedBytes / per_sequence));
        RegisterDecode({IsaName(isa), {shape, format, sequences, kTokens, 1}}, team, bandwidth);
      }
      for (const AttentionShape& shape : prefill_shapes) {
        for (const int tokens : {512, 4096}) {
          RegisterPrefill({IsaName(isa), {shape, format, 1, tokens, 512}}, team);
        }
      }
    }
  }
}

}  // namespace
}  // namespace swiftkv

int main(int argc, char** argv) {
  swiftkv::ThreadTeam team(swiftkv::kThreads);
  const double bandwidth = swiftkv::ReadBandwidth(&team);
  benchmark::AddCustomContext("read GB/s of two threads", std::to_string(bandwidth / 1e9));
  swiftkv::RegisterAll(&team, bandwidth);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
