// SPDX-License-Identifier: Apache-2.0
// Tells which instruction sets this machine and its operating system offer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "swiftkv/status.h"

namespace swiftkv {

// Sets that kernels are built for, each containing the one before. A finer extension is a flag of
// CpuFeatures.
enum class Isa : std::uint8_t {
  kPortable = 0,    // what the compiler's baseline gives
  kAvx2 = 1,        // AVX2, FMA, F16C, BMI1, BMI2
  kAvx512 = 2,      // F, BW, VL, DQ, CD
  kAvx512Vnni = 3,  // and the byte dot products of VNNI
  kAvx512Fp16 = 4,  // and arithmetic in f16, BF16 and the byte permutations of VBMI
  kAmx = 5,         // AMX tiles with bf16 and int8, AVX-512 BF16, but f16 only where there is such
};

// A flag is true only where CPU and operating system (saved register state) both support it.
struct CpuFeatures {
  bool avx2 = false;         // all of Isa::kAvx2
  bool avx_vnni = false;     // VNNI in 256-bit registers without AVX-512
  bool avx512 = false;       // all of Isa::kAvx512
  bool avx512_vnni = false;  // these four imply avx512
  bool avx512_vbmi = false;
  bool avx512_bf16 = false;
  bool avx512_fp16 = false;
  bool amx_tile = false;  // the process must still ask the kernel before it touches a tile
  bool amx_int8 = false;  // these two imply amx_tile
  bool amx_bf16 = false;
};

// Returns this machine's features, looked up once.
const CpuFeatures& HostCpu();

// Returns family, model and stepping as CPUID leaf 1 packs them; 0 where there is no such leaf.
std::uint32_t HostCpuSignature();

// Returns the largest set that `cpu` runs.
Isa BestIsa(const CpuFeatures& cpu);

// Returns whether the attention kernels of `isa` compute in f32 throughout. Larger sets multiply
// rounded or split numbers where a format allows it.
constexpr bool ComputesInF32(Isa isa) { return isa <= Isa::kAvx512; }

// Returns the largest set that `cpu` runs whose kernels compute in f32.
Isa BestF32Isa(const CpuFeatures& cpu);

// Returns whether `cpu` runs kernels built for `isa`.
bool Runs(const CpuFeatures& cpu, Isa isa);

// Returns "portable", "avx2", "avx512", "avx512vnni", "avx512fp16" or "amx".
const char* IsaName(Isa isa);

// Returns the set called `name`; "auto" gives this machine's largest. Errors: InvalidArgument with
// the list of names; Unsupported where this machine does not run the set.
Result<Isa> ParseIsa(std::string_view name);

// Returns a line for logs, e.g. "avx512 vnni bf16 fp16".
std::string CpuSummary(const CpuFeatures& cpu);

// Lists all sets, smallest first.
std::span<const Isa> AllIsas();

}  // namespace swiftkv
