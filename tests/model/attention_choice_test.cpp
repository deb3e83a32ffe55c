// SPDX-License-Identifier: Apache-2.0
// Checks which instruction sets a model's options lead to.
#include <gtest/gtest.h>

#include "base/cpu_features.h"
#include "model/language_model.h"

namespace swiftkv {
namespace {

TEST(AttentionChoiceTest, PreciseAttentionTakesNoSetThatRounds) {
  ModelOptions options;
  options.precise = true;
  EXPECT_TRUE(MakeAttentionBackend(options).ok());
  for (const Isa isa : AllIsas()) {
    if (!Runs(HostCpu(), isa)) continue;
    options.isa = IsaName(isa);
    const auto backend = MakeAttentionBackend(options);
    EXPECT_EQ(backend.ok(), isa <= Isa::kAvx512) << options.isa;
    if (backend.ok()) continue;
    EXPECT_EQ(backend.status().message(),
              "precise attention is computed in f32, by the instruction sets portable, avx2 and "
              "avx512, not: " +
                  options.isa);
  }
}

TEST(AttentionChoiceTest, TheReferenceIsPreciseAsItIs) {
  ModelOptions options;
  options.attention_backend = "reference";
  options.precise = true;
  EXPECT_TRUE(MakeAttentionBackend(options).ok());
}

}  // namespace
}  // namespace swiftkv
