// SPDX-License-Identifier: Apache-2.0
// Checks detection against the compiler's own, and the names.
#include "base/cpu_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swiftkv {
namespace {

TEST(CpuFeaturesTest, DetectionAgreesWithTheCompilersRuntime) {
  const CpuFeatures& cpu = HostCpu();
#if defined(__x86_64__)
  EXPECT_EQ(cpu.avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi2"));
  EXPECT_EQ(cpu.avx512, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl") &&
                            __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512cd"));
  EXPECT_EQ(cpu.avx512_vnni, cpu.avx512 && __builtin_cpu_supports("avx512vnni"));
#else
  EXPECT_EQ(BestIsa(cpu), Isa::kPortable);
#endif
}

TEST(CpuFeaturesTest, TheBestSetIsOneThatTheCpuRunsAndNoLargerOneRuns) {
  CpuFeatures cpu;
  EXPECT_EQ(BestIsa(cpu), Isa::kPortable);
  EXPECT_TRUE(Runs(cpu, Isa::kPortable));
  cpu.avx2 = true;
  EXPECT_EQ(BestIsa(cpu), Isa::kAvx2);
  EXPECT_FALSE(Runs(cpu, Isa::kAvx512));
  cpu.avx512 = true;
  EXPECT_EQ(BestIsa(cpu), Isa::kAvx512);
  cpu.avx512_vnni = cpu.avx512_bf16 = cpu.amx_tile = cpu.amx_bf16 = true;
  EXPECT_EQ(BestIsa(cpu), Isa::kAvx512Vnni);
  cpu.avx512_vbmi = cpu.avx512_fp16 = true;
  EXPECT_EQ(BestIsa(cpu), Isa::kAvx512Fp16);
  cpu.avx512_vbmi = cpu.avx512_fp16 = false;
  cpu.amx_int8 = true;
  EXPECT_EQ(BestIsa(cpu), Isa::kAmx);
}

TEST(CpuFeaturesTest, EveryNameIsReadBackOrRefusedAsTooLargeForThisMachine) {
  for (Isa isa : AllIsas()) {
    const auto parsed = ParseIsa(IsaName(isa));
    if (Runs(HostCpu(), isa)) {
      ASSERT_TRUE(parsed.ok());
      EXPECT_EQ(*parsed, isa);
    } else {
      EXPECT_EQ(parsed.status().code(), StatusCode::kUnsupported);
    }
  }
  EXPECT_EQ(*ParseIsa("auto"), BestIsa(HostCpu()));
}

TEST(CpuFeaturesTest, AnUnknownNameIsAnsweredWithTheListOfNames) {
  const auto parsed = ParseIsa("sse9");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parsed.status().message(),
            "an instruction set is one of auto, portable, avx2, avx512, avx512vnni, avx512fp16, "
            "amx, "
            "not: sse9");
}

}  // namespace
}  // namespace swiftkv
