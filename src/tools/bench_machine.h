// SPDX-License-Identifier: Apache-2.0
// Measures what a machine can do at best: bytes read from memory and operations in registers, per
// second, by a number of threads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/thread_team.h"
#include "swiftkv/status.h"
#include "tools/bench_probes.h"

namespace swiftkv {

struct MachineFigures {
  std::string cpu;  // "avx512 vnni bf16"
  int threads = 0;
  double gb_s = 0;                         // memory of small pages, in order
  std::optional<double> huge_gb_s;         // of 2 MiB pages, where the system gives them
  double gflop_s = 0;                      // f32 fused multiply-add, the best instruction set
  std::optional<double> bf16_gflop_s;      // AVX-512 BF16 dot products
  std::optional<double> amx_bf16_gflop_s;  // AMX tiles
};

// Reads `bytes` of memory again and again; takes that much memory for a moment. Errors:
// ResourceExhausted.
Result<MachineFigures> MeasureMachine(const MachineProbes& probes, std::size_t bytes,
                                      ThreadTeam* team);

}  // namespace swiftkv
