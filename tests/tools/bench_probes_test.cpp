// SPDX-License-Identifier: Apache-2.0
// Tests that every set of probes reads all that it is given and counts its operations.
#include "tools/bench_probes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <cstring>
#include <vector>

#include "base/cpu_features.h"

namespace swiftkv {
namespace {

std::vector<MachineProbes> RunnableProbes() {
  std::vector<MachineProbes> probes = {*PortableProbes()};
  if (HostCpu().avx2 && Avx2Probes() != nullptr) probes.push_back(*Avx2Probes());
  if (HostCpu().avx512 && Avx512Probes() != nullptr) probes.push_back(*Avx512Probes());
  return probes;
}

struct alignas(64) Line {
  std::uint64_t words[8];
};

TEST(BenchProbesTest, ReadingAddsUpEveryWord) {
  std::vector<Line> lines(37);
  std::uint64_t sum = 0;
  std::uint64_t next = 1;
  for (Line& line : lines) {
    for (std::uint64_t& word : line.words) sum += word = next++ * 0x9E3779B97F4A7C15U;
  }
  const auto* data = reinterpret_cast<const std::byte*>(lines.data());
  for (const MachineProbes& probes : RunnableProbes()) {
    EXPECT_EQ(probes.read(data, lines.size() * sizeof(Line)), sum) << probes.isa;
    EXPECT_EQ(probes.read(data, 0), 0U) << probes.isa;
    // The same lines as 37 pieces, backwards.
    std::vector<const std::byte*> pieces;
    for (std::size_t i = lines.size(); i-- > 0;) pieces.push_back(data + i * sizeof(Line));
    EXPECT_EQ(probes.read_scattered({pieces.data(), pieces.size(), sizeof(Line)}), sum)
        << probes.isa;
  }
}

TEST(BenchProbesTest, OperationsGrowWithTheRounds) {
  for (const MachineProbes& probes : RunnableProbes()) {
    EXPECT_GT(probes.multiply(1), 0) << probes.isa;
    EXPECT_EQ(probes.multiply(10), 10 * probes.multiply(1)) << probes.isa;
  }
  const MachineProbes best = BestProbes(HostCpu());
  EXPECT_STREQ(best.isa, IsaName(std::min(BestIsa(HostCpu()), Isa::kAvx512)));
  EXPECT_EQ(best.multiply_bf16 != nullptr, HostCpu().avx512_bf16);
  if (best.multiply_bf16 != nullptr) {
    EXPECT_EQ(best.multiply_bf16(10), 10 * best.multiply_bf16(1));
  }
}

TEST(BenchProbesTest, AMachineWithoutExtensionsGetsThePortableOnes) {
  EXPECT_STREQ(BestProbes(CpuFeatures{}).isa, "portable");
}

}  // namespace
}  // namespace swiftkv
