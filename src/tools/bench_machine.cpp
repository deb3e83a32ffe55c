// SPDX-License-Identifier: Apache-2.0
// Implements the measurement of a machine. A figure is the best of some passes: what the machine
// can do, not what it did while others used it too.
#include "tools/bench_machine.h"

#include <algorithm>
#include <atomic>
#include <fstream>

#include "base/cpu_features.h"
#include "base/status_macros.h"
#include "tools/bench_arena.h"
#include "tools/bench_attention_passes.h"
#include "tools/bench_pass.h"

namespace swiftkv {
namespace {

constexpr int kPasses = 9;

double LeastSeconds(const Pass& pass, ThreadTeam* team) {
  double least = TimePass(pass, team).seconds;
  for (int i = 1; i < kPasses; ++i) least = std::min(least, TimePass(pass, team).seconds);
  return least;
}

Result<double> ReadRate(const MachineProbes& probes, std::size_t bytes, bool huge_pages,
                        ThreadTeam* team) {
  BenchArena arena(huge_pages);
  SKV_RETURN_IF_ERROR(arena.Ensure(bytes));
  const StreamPass pass(probes, arena.data(), bytes);
  return static_cast<double>(bytes) / LeastSeconds(pass, team) * 1e-9;
}

double ComputeRate(double (*multiply)(std::int64_t rounds), ThreadTeam* team) {
  constexpr std::int64_t kRounds = 1'000'000;
  std::atomic<double> flops{0};
  const Pass pass = [&](const PassThread&) { flops = multiply(kRounds); };
  const double seconds = LeastSeconds(pass, team);
  return flops * team->num_threads() / seconds * 1e-9;
}

// "[never]" in this file means that advice is not followed.
bool SystemHasHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string words;
  return std::getline(file, words) && words.find("[never]") == std::string::npos;
}

}  // namespace

Result<MachineFigures> MeasureMachine(const MachineProbes& probes, std::size_t bytes,
                                      ThreadTeam* team) {
  MachineFigures machine;
  machine.cpu = CpuSummary(HostCpu());
  machine.threads = team->num_threads();
  SKV_ASSIGN_OR_RETURN(machine.gb_s, ReadRate(probes, bytes, /*huge_pages=*/false, team));
  if (SystemHasHugePages()) {
    SKV_ASSIGN_OR_RETURN(machine.huge_gb_s, ReadRate(probes, bytes, /*huge_pages=*/true, team));
  }
  machine.gflop_s = ComputeRate(probes.multiply, team);
  if (probes.multiply_bf16 != nullptr) {
    machine.bf16_gflop_s = ComputeRate(probes.multiply_bf16, team);
  }
  if (probes.multiply_tiles != nullptr) {
    machine.amx_bf16_gflop_s = ComputeRate(probes.multiply_tiles, team);
  }
  return machine;
}

}  // namespace swiftkv
