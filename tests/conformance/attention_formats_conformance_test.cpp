// SPDX-License-Identifier: Apache-2.0
// Holds every backend against the reference where formats change within and between sequences, and
// on inputs at the ends of what floats and formats hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "formats/page_format_table.h"
#include "support/attention_trial.h"
#include "support/paged_batch.h"
#include "support/sanitizers.h"
#include "swiftkv/attention.h"

namespace swiftkv {
namespace {

using ::testing::Each;
using ::testing::Truly;

RunSpec RunOf(const NamedPageFormat& format, int tokens) {
  return {.key_format = format.format.key->info().name,
          .value_format = format.format.value->info().name,
          .num_tokens = tokens};
}

// Sinks and the newest tokens in int8, what lies between in `format`.
SequenceSpec Guarded(const NamedPageFormat& format, int middle_tokens, int num_rows) {
  return {.runs = {{.key_format = "int8", .value_format = "int8", .num_tokens = 16},
                   RunOf(format, middle_tokens),
                   {.key_format = "int8", .value_format = "int8", .num_tokens = 77}},
          .num_rows = num_rows};
}

// Rotated and plain pages meet within a chunk, a batch of pages and a tile.
TEST(AttentionFormatsConformance, FormatsThatChangeWithinASequenceAgreeWithTheReference) {
  std::uint32_t turn = 0;
  for (const NamedPageFormat& format : AllPageFormats()) {
    for (const int rows : {1, 5, 40, 90}) {
      if (kSanitized && rows % 2 == 0) continue;
      PagedBatchSpec spec;
      spec.shape = ShapeOf(++turn % 3 == 0 ? 80 : 64, 2, 3);
      spec.shape.window = turn % 4 == 1 ? 300 : 0;
      spec.seed = turn;
      spec.sequences = {Guarded(format, 64, rows), Guarded(format, 1008, rows)};
      SequenceSpec fork = Guarded(format, 1008, rows);
      fork.shared = {.sequence = 1, .tokens = 1024};
      spec.sequences.push_back(fork);
      ExpectAllAgree(std::string(format.name) + " rows " + std::to_string(rows), spec);
    }
  }
}

TEST(AttentionFormatsConformance, FormatsThatDifferBetweenSequencesAgreeWithTheReference) {
  for (const int rows : {1, 30}) {
    PagedBatchSpec spec;
    spec.shape = ShapeOf(64, 3, 3);
    for (const NamedPageFormat& format : AllPageFormats()) {
      spec.sequences.push_back({.runs = {RunOf(format, 500)}, .num_rows = rows});
      SequenceSpec fork{.runs = {RunOf(format, 450)}, .num_rows = 1};
      fork.shared = {.sequence = static_cast<int>(spec.sequences.size()) - 1, .tokens = 448};
      spec.sequences.push_back(fork);
    }
    ExpectAllAgree("rows " + std::to_string(rows), spec);
  }
}

// One long prompt and decodes that share it, in one format.
PagedBatchSpec Typical(const NamedPageFormat& format) {
  PagedBatchSpec spec;
  spec.shape = ShapeOf(64, 2, 3);
  spec.sequences = {{.runs = {RunOf(format, 800)}, .num_rows = 40}};
  for (int s = 0; s < 9; ++s) {
    SequenceSpec fork{.runs = {RunOf(format, 700 + s)}, .num_rows = 1};
    fork.shared = {.sequence = 0, .tokens = 640};
    spec.sequences.push_back(fork);
  }
  return spec;
}

// The bias is the same for all tokens: it cancels in the weights, and so must the rounding of
// queries. In a log-sum-exp that rounding shows, multiplied by the bias. Queries that are one bf16
// or one byte, and sums in f16, do worse where a format spreads the bias over the channels and
// rounds it there: by less than what the format itself loses then.
TEST(AttentionFormatsConformance, AKeyChannelOfFiveHundredAgreesWithTheReference) {
  for (const NamedPageFormat& format : AllPageFormats()) {
    PagedBatchSpec spec = Typical(format);
    spec.key_bias = 500;
    PagedBatch paged(spec);
    const AttentionOutcome expected = Compute(*ReferenceBackendUnderTest(), &paged, 2);
    for (const NamedBackend& tested : BackendsUnderTest()) {
      const AttentionOutcome actual = Compute(*tested.backend, &paged, 2);
      const std::string label = tested.name + " in " + format.name;
      const float bound = BoundOf(tested, spec);
      const bool rough = bound >= kHalfBound;
      const float lse_bound = bound == kOneLimbBound ? 1.5F : rough || tested.tiled ? .2F : 5e-3F;
      ExpectNear(label + ", out", actual.out, expected.out, rough ? .15F : 2 * bound);
      ExpectNear(label + ", lse", actual.lse, expected.lse, lse_bound);
    }
  }
}

// Scores reach 1e11, where f32 tells only the largest apart: results are means of values still.
TEST(AttentionFormatsConformance, InputsUpToAHundredThousandStayFinite) {
  for (const NamedPageFormat& format : AllPageFormats()) {
    PagedBatchSpec spec = Typical(format);
    spec.magnitude = 3e4;
    PagedBatch paged(spec);
    const AttentionOutcome expected = Compute(*ReferenceBackendUnderTest(), &paged, 2);
    for (const NamedBackend& tested : BackendsUnderTest()) {
      const AttentionOutcome actual = Compute(*tested.backend, &paged, 2);
      ExpectNear(tested.name + " lse in " + format.name, actual.lse, expected.lse,
                 BoundOf(tested, spec));
      EXPECT_THAT(actual.out, Each(Truly([](float value) { return std::fabs(value) < 3e5F; })))
          << tested.name << " in " << format.name;
    }
  }
}

TEST(AttentionFormatsConformance, ZerosGiveZerosAndTheLogarithmOfTheNumberOfTokens) {
  for (const NamedPageFormat& format : AllPageFormats()) {
    PagedBatchSpec spec = Typical(format);
    spec.magnitude = 0;
    PagedBatch paged(spec);
    for (const NamedBackend& tested : BackendsUnderTest()) {
      const AttentionOutcome outcome = Compute(*tested.backend, &paged, 2);
      EXPECT_THAT(outcome.out, Each(0.0F)) << tested.name << " in " << format.name;
      EXPECT_NEAR(outcome.lse.front(), std::log(761.0F), 1e-5F) << tested.name;
      EXPECT_NEAR(outcome.lse.back(), std::log(708.0F), 1e-5F) << tested.name;
    }
  }
}

}  // namespace
}  // namespace swiftkv
