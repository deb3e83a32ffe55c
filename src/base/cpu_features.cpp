// SPDX-License-Identifier: Apache-2.0
// Reads CPUID and XCR0: a feature counts only when the operating system saves its registers.
#include "base/cpu_features.h"

#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace swiftkv {
namespace {

constexpr std::array<Isa, 6> kIsas = {Isa::kPortable,   Isa::kAvx2,       Isa::kAvx512,
                                      Isa::kAvx512Vnni, Isa::kAvx512Fp16, Isa::kAmx};

#if defined(__x86_64__)

struct CpuidLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf Cpuid(unsigned leaf, unsigned subleaf) {
  CpuidLeaf result;
  if (__get_cpuid_count(leaf, subleaf, &result.eax, &result.ebx, &result.ecx, &result.edx) == 0) {
    return {};
  }
  return result;
}

constexpr bool Bit(std::uint64_t word, int bit) { return ((word >> bit) & 1U) != 0; }

// Returns the register states that the operating system saves; 0 where it saves none of ours.
std::uint64_t SavedStates(const CpuidLeaf& leaf1) {
  constexpr int kOsXsave = 27;
  if (!Bit(leaf1.ecx, kOsXsave)) return 0;
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

CpuFeatures Detect() {
  const CpuidLeaf leaf1 = Cpuid(1, 0);
  const CpuidLeaf leaf7 = Cpuid(7, 0);
  const CpuidLeaf leaf7_1 = leaf7.eax >= 1 ? Cpuid(7, 1) : CpuidLeaf{};
  const std::uint64_t saved = SavedStates(leaf1);
  constexpr std::uint64_t kYmm = 0x6;          // XMM and upper YMM halves
  constexpr std::uint64_t kZmm = kYmm | 0xE0;  // opmasks, upper ZMM halves, ZMM16-31
  constexpr std::uint64_t kTiles = 0x60000;    // tile configuration and tile data
  const bool ymm = (saved & kYmm) == kYmm;
  const bool zmm = (saved & kZmm) == kZmm;
  const bool tiles = (saved & kTiles) == kTiles;

  CpuFeatures cpu;
  const bool fma = Bit(leaf1.ecx, 12);
  const bool f16c = Bit(leaf1.ecx, 29);
  const bool bmi = Bit(leaf7.ebx, 3) && Bit(leaf7.ebx, 8);
  cpu.avx2 = ymm && fma && f16c && bmi && Bit(leaf7.ebx, 5);
  cpu.avx_vnni = cpu.avx2 && Bit(leaf7_1.eax, 4);
  const bool f = Bit(leaf7.ebx, 16);
  const bool dq = Bit(leaf7.ebx, 17);
  const bool cd = Bit(leaf7.ebx, 28);
  const bool bw = Bit(leaf7.ebx, 30);
  const bool vl = Bit(leaf7.ebx, 31);
  cpu.avx512 = cpu.avx2 && zmm && f && dq && cd && bw && vl;
  cpu.avx512_vnni = cpu.avx512 && Bit(leaf7.ecx, 11);
  cpu.avx512_vbmi = cpu.avx512 && Bit(leaf7.ecx, 1);
  cpu.avx512_bf16 = cpu.avx512 && Bit(leaf7_1.eax, 5);
  cpu.avx512_fp16 = cpu.avx512 && Bit(leaf7.edx, 23);
  cpu.amx_tile = tiles && Bit(leaf7.edx, 24);
  cpu.amx_int8 = cpu.amx_tile && Bit(leaf7.edx, 25);
  cpu.amx_bf16 = cpu.amx_tile && Bit(leaf7.edx, 22);
  return cpu;
}

#else

CpuFeatures Detect() { return {}; }

#endif

}  // namespace

std::uint32_t HostCpuSignature() {
#if defined(__x86_64__)
  return Cpuid(1, 0).eax;
#else
  return 0;
#endif
}

const CpuFeatures& HostCpu() {
  static const CpuFeatures cpu = Detect();
  return cpu;
}

bool Runs(const CpuFeatures& cpu, Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return cpu.avx2;
    case Isa::kAvx512:
      return cpu.avx512;
    case Isa::kAvx512Vnni:
      return cpu.avx512_vnni;
    case Isa::kAvx512Fp16:
      return cpu.avx512_vnni && cpu.avx512_vbmi && cpu.avx512_bf16 && cpu.avx512_fp16;
    case Isa::kAmx:
      return cpu.avx512_vnni && cpu.avx512_bf16 && cpu.amx_int8 && cpu.amx_bf16;
  }
  return false;
}

Isa BestIsa(const CpuFeatures& cpu) {
  Isa best = Isa::kPortable;
  for (Isa isa : kIsas) {
    if (Runs(cpu, isa)) best = isa;
  }
  return best;
}

Isa BestF32Isa(const CpuFeatures& cpu) {
  Isa best = Isa::kPortable;
  for (Isa isa : kIsas) {
    if (ComputesInF32(isa) && Runs(cpu, isa)) best = isa;
  }
  return best;
}

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
    case Isa::kAvx512Fp16:
      return "avx512fp16";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

Result<Isa> ParseIsa(std::string_view name) {
  if (name == "auto") return BestIsa(HostCpu());
  std::string names = "auto";
  for (Isa isa : kIsas) {
    if (name == IsaName(isa)) {
      if (Runs(HostCpu(), isa)) return isa;
      return Status::Unsupported(std::string("this machine runs ") + IsaName(BestIsa(HostCpu())) +
                                 " at most, not: " + std::string(name));
    }
    names += std::string(", ") + IsaName(isa);
  }
  return Status::InvalidArgument("an instruction set is one of " + names +
                                 ", not: " + std::string(name));
}

std::string CpuSummary(const CpuFeatures& cpu) {
  std::string text = IsaName(BestIsa(cpu));
  if (cpu.avx512_vnni || cpu.avx_vnni) text += " vnni";
  if (cpu.avx512_bf16) text += " bf16";
  if (cpu.avx512_fp16) text += " fp16";
  if (cpu.amx_tile) text += " amx";
  return text;
}

std::span<const Isa> AllIsas() { return kIsas; }

}  // namespace swiftkv
