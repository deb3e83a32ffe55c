// SPDX-License-Identifier: Apache-2.0
// Implements the measurement of rows.
#include "tools/bench_attention.h"

#include <functional>
#include <memory>

#include "base/status_macros.h"
#include "model/thread_count.h"
#include "tools/bench_arena.h"
#include "tools/bench_attention_passes.h"
#include "tools/bench_pass.h"

namespace swiftkv {
namespace {

// What all rows share.
struct Bench {
  const MachineProbes* probes;
  RoundOptions rounds;
  BenchArena* arena;
  BenchArena* second_arena;  // of what is measured beside the pages of the first
  ThreadTeam* team;
};

// Pages in the arena and the kernels that read them.
struct Setup {
  std::unique_ptr<AttentionBackend> backend;
  std::unique_ptr<BenchPages> pages;
  std::unique_ptr<KernelPass> kernel;
};

Result<Setup> MakeSetup(const Bench& bench, Isa isa, const BenchPagesSpec& spec) {
  Setup setup;
  SKV_ASSIGN_OR_RETURN(setup.backend, MakeAttentionBackend("cpu", IsaName(isa)));
  SKV_ASSIGN_OR_RETURN(setup.pages, BenchPages::Make(spec, bench.arena));
  SKV_ASSIGN_OR_RETURN(setup.kernel, KernelPass::Make(setup.backend.get(), setup.pages.get()));
  return setup;
}

// Runs the passes once for nothing, then in turn.
RoundTimes Measure(const Bench& bench, std::span<const Pass> passes) {
  for (const Pass& pass : passes) TimePass(pass, bench.team);
  return TimeRounds(passes, bench.rounds, bench.team);
}

void AddTimes(const RoundTimes& times, AttentionRow* row) {
  row->rounds = static_cast<int>(times.seconds.front().size());
  row->rejected += times.rejected;
  row->disturbed += times.disturbed;
}

StreamPass StreamOf(const Bench& bench, const BenchPages& pages) {
  return {*bench.probes, bench.arena->data(), pages.work().distinct_bytes};
}

Status MeasureDecode(const Bench& bench, AttentionRow* row) {
  SKV_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(bench, row->what.isa, row->what.pages));
  const RawPass raw(*bench.probes, setup.pages.get(), bench.team->num_threads());
  const Pass passes[] = {StreamOf(bench, *setup.pages), std::cref(raw), std::cref(*setup.kernel)};
  const RoundTimes times = Measure(bench, passes);
  AddTimes(times, row);
  const double bytes = static_cast<double>(setup.pages->work().distinct_bytes);
  row->us = Median(times.seconds[2]) * 1e6;
  row->stream_gb_s = bytes / Median(times.seconds[0]) * 1e-9;
  row->fraction = MedianRatio(times.seconds[0], times.seconds[2]);
  row->raw_fraction = MedianRatio(times.seconds[1], times.seconds[2]);
  return Status::Ok();
}

// What the kernels take beside a row, on pages of the plain kind.
struct Beside {
  double us = 0;     // of as many calls as the row's
  double times = 0;  // that of the row
};

// Times the kernels on shared pages, or on segments, and on the row's private pages in turn.
Result<Beside> MeasureBeside(const Bench& bench, AttentionRow* row) {
  const AttentionCase& what = row->what;
  SKV_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(bench, what.isa, what.pages));
  Bench beside = bench;
  beside.arena = bench.second_arena;
  SKV_ASSIGN_OR_RETURN(const Setup plain, MakeSetup(beside, what.isa, what.private_pages));
  const RawPass raw(*bench.probes, setup.pages.get(), bench.team->num_threads());
  const Pass passes[] = {StreamOf(bench, *setup.pages), std::cref(*setup.kernel),
                         std::cref(*plain.kernel), std::cref(raw)};
  const bool decodes = what.phase == BenchPhase::kDecode;
  const RoundTimes times = Measure(bench, std::span(passes).first(decodes ? 4 : 3));
  AddTimes(times, row);
  const BenchWork& work = setup.pages->work();
  const double calls = static_cast<double>(work.calls) / plain.pages->work().calls;
  row->us = Median(times.seconds[1]) * 1e6;
  row->stream_gb_s = static_cast<double>(work.distinct_bytes) / Median(times.seconds[0]) * 1e-9;
  row->fraction = MedianRatio(times.seconds[0], times.seconds[1]);
  if (decodes) row->raw_fraction = MedianRatio(times.seconds[3], times.seconds[1]);
  return Beside{Median(times.seconds[2]) * calls * 1e6,
                MedianRatio(times.seconds[2], times.seconds[1]) * calls};
}

Status MeasureCascade(const Bench& bench, AttentionRow* row) {
  SKV_ASSIGN_OR_RETURN(const Beside alone, MeasureBeside(bench, row));
  row->us_private = alone.us;
  row->ratio = alone.times;
  return Status::Ok();
}

Status MeasureSegments(const Bench& bench, AttentionRow* row) {
  SKV_ASSIGN_OR_RETURN(const Beside dense, MeasureBeside(bench, row));
  row->us_dense = dense.us;
  row->speedup = dense.times;
  return Status::Ok();
}

// The most operations that a set's kernels could do.
double PeakGflops(const MachineFigures& machine, Isa isa) {
  return isa == Isa::kAmx ? machine.amx_bf16_gflop_s.value_or(machine.gflop_s) : machine.gflop_s;
}

Status MeasurePrefill(const Bench& bench, const MachineFigures& machine, AttentionRow* row) {
  SKV_ASSIGN_OR_RETURN(const Setup setup, MakeSetup(bench, row->what.isa, row->what.pages));
  const Pass passes[] = {std::cref(*setup.kernel)};
  const RoundTimes times = Measure(bench, passes);
  AddTimes(times, row);
  row->us = Median(times.seconds[0]) * 1e6;
  row->peak_fraction = GflopPerSecond(*row) / PeakGflops(machine, row->what.isa);
  return Status::Ok();
}

Status MeasureRow(const Bench& bench, const MachineFigures& machine, AttentionRow* row) {
  switch (row->what.phase) {
    case BenchPhase::kDecode:
      return row->what.pages.removed > 0 ? MeasureSegments(bench, row) : MeasureDecode(bench, row);
    case BenchPhase::kCascade:
      return MeasureCascade(bench, row);
    case BenchPhase::kPrefill:
      return MeasurePrefill(bench, machine, row);
  }
  return Status::Ok();
}

}  // namespace

Result<AttentionBenchResult> RunAttentionBench(const BenchAttentionOptions& options,
                                               const BenchProgress& progress) {
  SKV_ASSIGN_OR_RETURN(const std::vector<AttentionCase> cases, ListAttentionCases(options));
  const MachineProbes probes = BestProbes(HostCpu());
  ThreadTeam team(options.threads > 0 ? options.threads : AvailableCores());
  AttentionBenchResult result;
  const std::size_t bytes = static_cast<std::size_t>(options.megabytes) * 1'000'000 / 64 * 64;
  SKV_ASSIGN_OR_RETURN(result.machine, MeasureMachine(probes, bytes, &team));

  BenchArena arena(options.huge_pages);
  BenchArena second_arena(options.huge_pages);
  Bench bench = {&probes, {}, &arena, &second_arena, &team};
  bench.rounds.rounds = options.rounds;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!progress(static_cast<double>(i) / static_cast<double>(cases.size()), cases[i])) break;
    AttentionRow row;
    row.what = cases[i];
    SKV_RETURN_IF_ERROR(MeasureRow(bench, result.machine, &row));
    result.rows.push_back(row);
  }
  AddCascadeBounds(&result.rows);
  return result;
}

}  // namespace swiftkv
