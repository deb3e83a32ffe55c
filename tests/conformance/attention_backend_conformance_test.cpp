// SPDX-License-Identifier: Apache-2.0
// Holds every backend of the table, in every instruction set that this machine runs, against the
// reference.
//
// Shapes are paired rather than multiplied out: one test walks formats and head sizes with the
// other choices rotating beside them, another walks group sizes, rows, windows and softcap at a
// small head size. Unused slots of all pages hold NaN patterns, and outputs start as NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/codec_table.h"
#include "support/attention_trial.h"
#include "support/paged_batch.h"
#include "support/sanitizers.h"
#include "swiftkv/attention.h"

namespace swiftkv {
namespace {

// A sanitizer looks for faults, not for rounding: one case in eleven reaches every path, as eleven
// divides none of the lists that take turns.
bool Skips(std::uint32_t turn) { return kSanitized && turn % 11 != 0; }

TEST(AttentionBackendConformance, EveryFormatPairAndHeadSizeAgreesWithTheReference) {
  const int groups[] = {1, 2, 3, 4, 7, 8};
  const int windows[] = {0, 1, 16, 31, 512};
  std::uint32_t turn = 0;
  for (const PageCodec* key : AllCodecs()) {
    for (const PageCodec* value : AllCodecs()) {
      for (const int head_dim : {16, 32, 48, 64, 80, 96, 112, 128, 192, 256}) {
        if (Skips(++turn)) continue;
        PagedBatchSpec spec;
        spec.shape = ShapeOf(head_dim, 2, groups[turn % 6]);
        spec.shape.window = windows[turn % 5];
        spec.shape.softcap = turn % 4 == 3 ? 5.0F : 0.0F;
        spec.seed = turn;
        const std::string k = key->info().name;
        const std::string v = value->info().name;
        spec.sequences = {Dense(1, 1, k, v), Dense(513, 1, k, v), Dense(47, 3, k, v),
                          Dense(101, 33, k, v)};
        ExpectAllAgree(k + "/" + v + " head_dim " + std::to_string(head_dim), spec);
      }
    }
  }
}

TEST(AttentionBackendConformance, EveryGroupSizeRowCountWindowAndSoftcapAgreesWithTheReference) {
  const int lengths[] = {0, 1, 14, 100, 450};
  std::uint32_t turn = 0;
  for (const int group : {1, 2, 3, 4, 7, 8, 20, 48}) {
    for (const int rows : {1, 2, 7, 16, 33, 64}) {
      for (const int window : {0, 1, 16, 31, 512}) {
        if (Skips(++turn)) continue;
        PagedBatchSpec spec;
        spec.shape = ShapeOf(32, group > 8 ? 1 : 2, group);
        spec.shape.window = window;
        spec.shape.softcap = turn % 2 == 0 ? 0.0F : 3.0F;
        spec.seed = turn;
        spec.sequences = {Dense(rows + lengths[turn % 5], rows)};
        ExpectAllAgree("group " + std::to_string(group) + " rows " + std::to_string(rows) +
                           " window " + std::to_string(window),
                       spec);
      }
    }
  }
}

TEST(AttentionBackendConformance, RaggedBatchesAgreeWithTheReference) {
  for (const int rows : {1, 2, 7, 15}) {
    if (kSanitized && rows > 1) continue;
    PagedBatchSpec spec;
    spec.shape = ShapeOf(64, 3, 3);
    for (const int length : {15, 16, 17, 31, 511, 512, 513, 1100, 2049}) {
      spec.sequences.push_back(Dense(length, rows));
    }
    ExpectAllAgree("rows " + std::to_string(rows), spec);
  }
}

TEST(AttentionBackendConformance, DecodesBesidePrefillsAgreeWithTheReference) {
  PagedBatchSpec spec;
  spec.shape = ShapeOf(64, 2, 4);
  spec.sequences = {Dense(300, 1), Dense(200, 200), Dense(1, 1), Dense(700, 130), Dense(64, 0)};
  ExpectAllAgree("mixed batch", spec);
  spec.shape.window = 100;
  ExpectAllAgree("mixed batch with a window", spec);
}

// Dense blocks, a forgotten stretch whose heads keep different tokens, then an exact tail.
SequenceSpec Patchwork(int num_rows) {
  return {
      .runs = {{.key_format = "bf16", .value_format = "bf16", .num_tokens = 48},
               {.key_format = "f32", .value_format = "f16", .num_tokens = 700, .per_head = true},
               {.key_format = "f16", .value_format = "bf16", .num_tokens = 90, .per_head = true},
               {.key_format = "f16", .value_format = "f16", .num_tokens = 160},
               {.key_format = "f16", .value_format = "f16", .num_tokens = 75}},
      .num_rows = num_rows};
}

TEST(AttentionBackendConformance, RunsOfSeveralFormatsWithGapsMergeLikeTheReference) {
  for (const int rows : {1, 5, 16, 64}) {
    for (const int window : {0, 40, 300, 600}) {
      if (Skips(static_cast<std::uint32_t>(rows + window))) continue;
      PagedBatchSpec spec;
      spec.shape = ShapeOf(64, 3, 3);
      spec.shape.window = window;
      spec.sequences = {Patchwork(rows), Patchwork(rows)};
      spec.seed = static_cast<std::uint32_t>(rows + window);
      ExpectAllAgree("rows " + std::to_string(rows) + " window " + std::to_string(window), spec);
    }
  }
}

TEST(AttentionBackendConformance, ResultsAreTheSameBitsForAnyNumberOfThreads) {
  PagedBatchSpec spec;
  spec.shape = ShapeOf(64, 3, 3);
  spec.sequences = {Patchwork(1), Dense(2000, 1), Dense(333, 100), Dense(40, 7), Patchwork(33)};
  PagedBatch paged(spec);
  for (const NamedBackend& tested : BackendsUnderTest()) {
    const AttentionOutcome one = Compute(*tested.backend, &paged, 1);
    for (const int threads : {2, 3, 7}) {
      const AttentionOutcome many = Compute(*tested.backend, &paged, threads);
      EXPECT_EQ(many.out, one.out) << tested.name << " with " << threads;
      EXPECT_EQ(many.lse, one.lse) << tested.name << " with " << threads;
      EXPECT_EQ(many.scores, one.scores) << tested.name << " with " << threads;
    }
  }
}

// The rows' own tokens and all older ones were forgotten by the first kv head.
TEST(AttentionBackendConformance, RowsThatSeeNothingGiveZerosAndMinusInfinity) {
  std::vector<NamedBackend> backends = BackendsUnderTest();
  backends.push_back({"reference", ReferenceBackendUnderTest(), kFloatBound, false});
  for (const int rows : {1, 40}) {
    PagedBatchSpec spec;
    spec.shape = ShapeOf(32, 1, 2);
    SequenceSpec forgetful{.runs = {{.num_tokens = 128, .per_head = true, .kept = 0}},
                           .num_rows = rows};
    spec.sequences = {forgetful, Dense(100, rows), {.runs = {}, .num_rows = rows}};
    PagedBatch paged(spec);
    const auto values = static_cast<std::size_t>(rows * 2 * 32);
    for (const NamedBackend& tested : backends) {
      const AttentionOutcome outcome = Compute(*tested.backend, &paged, 2);
      const std::vector<float> first(outcome.out.begin(), outcome.out.begin() + values);
      const std::vector<float> last(outcome.out.end() - values, outcome.out.end());
      EXPECT_THAT(first, testing::Each(0.0F)) << tested.name;
      EXPECT_THAT(last, testing::Each(0.0F)) << tested.name;
      EXPECT_EQ(outcome.lse.front(), -std::numeric_limits<float>::infinity()) << tested.name;
      EXPECT_EQ(outcome.lse.back(), -std::numeric_limits<float>::infinity()) << tested.name;
      EXPECT_TRUE(std::isfinite(outcome.lse[static_cast<std::size_t>(rows * 2)])) << tested.name;
    }
  }
}

// Scores reach 1e6, where a last bit of f32 is .06: only log-sum-exps can be compared.
TEST(AttentionBackendConformance, LargeMagnitudesStayFinite) {
  for (const std::string format : {"f32", "f16", "bf16"}) {
    for (const int rows : {1, 50}) {
      PagedBatchSpec spec;
      spec.shape = ShapeOf(64, 2, 4);
      spec.shape.softcap = rows == 1 ? 0.0F : 30.0F;
      spec.magnitude = 300;
      spec.sequences = {Dense(600, rows, format, format)};
      PagedBatch paged(spec);
      const AttentionOutcome expected = Compute(*ReferenceBackendUnderTest(), &paged, 2);
      for (const NamedBackend& tested : BackendsUnderTest()) {
        const AttentionOutcome actual = Compute(*tested.backend, &paged, 2);
        const float bound = tested.tiled ? BoundOf(tested, spec) : 1e-6F;
        ExpectNear(tested.name + " lse", actual.lse, expected.lse, bound);
        EXPECT_THAT(actual.out, testing::Each(testing::Truly([](float value) {
                      return std::fabs(value) < 2000;  // a mean of values that are below it
                    })))
            << tested.name;
      }
    }
  }
}

// The sums that the sink receives are probabilities: per kv head they add up to rows x heads.
TEST(AttentionBackendConformance, ScoresOfAHeadAddUpToRowsTimesGroup) {
  PagedBatchSpec spec;
  spec.shape = ShapeOf(64, 3, 3);
  spec.sequences = {Patchwork(20), Dense(700, 1)};
  PagedBatch paged(spec);
  for (const NamedBackend& tested : BackendsUnderTest()) {
    const AttentionOutcome outcome = Compute(*tested.backend, &paged, 2);
    for (std::size_t s = 0; s < outcome.scores.size(); ++s) {
      const std::size_t slots = outcome.scores[s].size() / 3;
      for (std::size_t head = 0; head < 3; ++head) {
        double total = 0;
        for (std::size_t i = 0; i < slots; ++i) total += outcome.scores[s][head * slots + i];
        EXPECT_NEAR(total, spec.sequences[s].num_rows * 3.0, 1e-3) << tested.name;
      }
    }
  }
}

}  // namespace
}  // namespace swiftkv
