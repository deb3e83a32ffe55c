// SPDX-License-Identifier: Apache-2.0
// Measures attention of the cpu backend on every instruction set and format: decoding as
// a fraction of the machine's read bandwidth, prefill as GFLOP/s.
//
// For work on one kernel: --benchmark_filter picks it, --benchmark_repetitions shows the spread.
// `swiftkv bench attention` measures the same cases beside the machine's speed of the same moment;
// here `fraction` is over a plain read of as many bytes, measured once at the start.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "tools/bench_attention_passes.h"
#include "tools/bench_attention_rows.h"
#include "tools/bench_machine.h"

namespace swiftkv {
namespace {

constexpr int kThreads = 2;

// What all cases share.
struct Session {
  ThreadTeam team{kThreads};
  BenchArena arena{/*huge_pages=*/false};
  MachineFigures machine;
};

void Measure(benchmark::State& state, const AttentionCase& what, Session* session) {
  const auto backend = MakeAttentionBackend("cpu", IsaName(what.isa)).value();
  auto pages = BenchPages::Make(what.pages, &session->arena);
  if (!pages.ok()) {
    state.SkipWithError(pages.status().message().c_str());
    return;
  }
  const auto kernel = KernelPass::Make(backend.get(), pages->get()).value();
  double seconds = 0;
  for (auto iteration : state) {
    (void)iteration;
    const double pass = TimePass(std::cref(*kernel), &session->team).seconds;
    state.SetIterationTime(pass);
    seconds += pass;
  }
  const BenchWork& work = (*pages)->work();
  const double passes = static_cast<double>(state.iterations());
  if (what.phase == BenchPhase::kPrefill) {
    state.counters["GFLOP/s"] = work.flops * passes / seconds * 1e-9;
    return;
  }
  const double gb_s = static_cast<double>(work.distinct_bytes) * passes / seconds * 1e-9;
  state.counters["GB/s"] = gb_s;
  state.counters["fraction"] = gb_s / session->machine.gb_s;
}

std::string NameOf(const AttentionCase& what) {
  const AttentionShape& shape = what.pages.shape;
  return std::string(BenchPhaseName(what.phase)) + "/" + IsaName(what.isa) + "/" + what.format +
         "/d" + std::to_string(shape.head_dim) + "/kv" + std::to_string(shape.num_kv_heads) +
         "/gqa" + std::to_string(shape.num_heads / shape.num_kv_heads) + "/context" +
         std::to_string(what.pages.context);
}

Status RegisterAll(Session* session) {
  BenchAttentionOptions options;
  options.phases = {{"decode", "prefill"}};
  options.head_dims = {{64, 128}};
  options.batches = {{1}};
  options.prefill_contexts = {{4096}};
  options.isa = "all";
  auto cases = ListAttentionCases(options);
  if (!cases.ok()) return cases.status();
  const std::size_t bytes = static_cast<std::size_t>(options.megabytes) * 1'000'000;
  auto machine = MeasureMachine(BestProbes(HostCpu()), bytes, &session->team);
  if (!machine.ok()) return machine.status();
  session->machine = *machine;
  benchmark::AddCustomContext("read GB/s of two threads", std::to_string(machine->gb_s));
  benchmark::AddCustomContext("f32 GFLOP/s of two threads", std::to_string(machine->gflop_s));
  for (const AttentionCase& what : *cases) {
    benchmark::RegisterBenchmark(NameOf(what).c_str(), Measure, what, session)
        ->Unit(benchmark::kMillisecond)
        ->UseManualTime();
  }
  return Status::Ok();
}

}  // namespace
}  // namespace swiftkv

int main(int argc, char** argv) {
  swiftkv::Session session;
  benchmark::Initialize(&argc, argv);
  const swiftkv::Status status = swiftkv::RegisterAll(&session);
  if (!status.ok()) {
    std::fprintf(stderr, "attention_bench: %s\n", status.message().c_str());
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
