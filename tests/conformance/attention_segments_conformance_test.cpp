// SPDX-License-Identifier: Apache-2.0
// Holds every backend against the reference where sequences stand on compressed segments: kv heads
// keep different tokens, perhaps in several formats whose positions interleave, and a dense tail
// follows.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "formats/page_format_table.h"
#include "support/attention_trial.h"
#include "support/paged_batch.h"
#include "support/sanitizers.h"
#include "swiftkv/attention.h"

namespace swiftkv {
namespace {

class RandomViews {
 public:
  explicit RandomViews(std::uint32_t seed) : random_(seed), seed_(seed) {}

  PagedBatchSpec Batch() {
    PagedBatchSpec spec;
    spec.seed = seed_;
    const int head_dims[] = {64, 64, 128, 32, 80};
    spec.shape = ShapeOf(head_dims[Below(5)], 1 + Below(4), 1 + Below(8));
    if (Below(5) == 0) spec.shape.softcap = 4;
    const int sequences = 1 + Below(4);
    for (int s = 0; s < sequences; ++s) {
      const bool shares = s > 0 && Below(2) == 0;
      spec.sequences.push_back(shares ? OnSegmentOf(spec, Below(s)) : Sequence(spec.shape));
    }
    return spec;
  }

 private:
  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

  RunSpec Run(int tokens) {
    const auto formats = AllPageFormats();
    const PageFormat& format =
        formats[static_cast<std::size_t>(Below(static_cast<int>(formats.size())))].format;
    return {.key_format = format.key->info().name,
            .value_format = format.value->info().name,
            .num_tokens = tokens};
  }

  // Some heads keep nothing, some all, most something.
  double Kept() {
    const int kind = Below(8);
    if (kind < 2) return kind;
    return std::uniform_real_distribution<double>(0.02, 0.98)(random_);
  }

  void AddTail(SequenceSpec* sequence) {
    const int tail = 1 + Below(Below(3) == 0 ? 300 : 40);
    if (Below(2) == 0) sequence->runs.push_back(Run(16 * (1 + Below(4))));
    sequence->runs.push_back(Run(tail));
    const int most[] = {1, 1, 6, 100};
    sequence->num_rows = std::min(tail, 1 + Below(most[Below(4)]));
  }

  SequenceSpec Sequence(const AttentionShape& shape) {
    SequenceSpec sequence;
    const int tokens = 16 * (1 + Below(Below(3) == 0 ? 90 : 12));
    const int formats = 1 + Below(3);
    for (int f = 0; f < formats; ++f) {
      RunSpec run = Run(tokens);
      run.per_head = true;
      run.beside = f > 0;
      for (int head = 0; head < shape.num_kv_heads; ++head) run.kept_of_heads.push_back(Kept());
      sequence.runs.push_back(run);
    }
    AddTail(&sequence);
    return sequence;
  }

  SequenceSpec OnSegmentOf(const PagedBatchSpec& spec, int other) {
    const SequenceSpec& source = spec.sequences[static_cast<std::size_t>(other)];
    SequenceSpec sequence;
    for (const RunSpec& run : source.runs) {
      if (run.per_head) sequence.runs.push_back(run);
    }
    sequence.shared = {.sequence = other, .tokens = sequence.runs.front().num_tokens};
    AddTail(&sequence);
    return sequence;
  }

  std::mt19937 random_;
  std::uint32_t seed_;
};

TEST(AttentionSegmentsConformance, RandomViewsOfUnlikeHeadsAgreeWithTheReference) {
  const std::uint32_t count = kSanitized ? 6 : 120;
  for (std::uint32_t seed = 1; seed <= count; ++seed) {
    ExpectAllAgree("seed " + std::to_string(seed), RandomViews(seed).Batch());
    if (testing::Test::HasFailure()) return;
  }
}

TEST(AttentionSegmentsConformance, ResultsAreTheSameBitsForAnyNumberOfThreads) {
  for (std::uint32_t seed = 1000; seed < (kSanitized ? 1002U : 1012U); ++seed) {
    PagedBatch paged(RandomViews(seed).Batch());
    for (const NamedBackend& tested : BackendsUnderTest()) {
      const AttentionOutcome one = Compute(*tested.backend, &paged, 1);
      for (const int threads : {2, 5}) {
        const AttentionOutcome many = Compute(*tested.backend, &paged, threads);
        EXPECT_EQ(many.out, one.out) << tested.name << " with " << threads;
        EXPECT_EQ(many.lse, one.lse) << tested.name << " with " << threads;
        EXPECT_EQ(many.scores, one.scores) << tested.name << " with " << threads;
      }
    }
  }
}

// A segment that one sequence reads by itself and eight read together.
TEST(AttentionSegmentsConformance, ACascadeOverASegmentAgreesWithTheReference) {
  std::uint32_t turn = 0;
  for (const NamedPageFormat& format : AllPageFormats()) {
    if (kSanitized && turn++ % 4 != 0) continue;
    const std::string key = format.format.key->info().name;
    const std::string value = format.format.value->info().name;
    PagedBatchSpec spec;
    spec.shape = ShapeOf(64, 3, 3);
    const RunSpec best = {.num_tokens = 1600, .per_head = true, .kept_of_heads = {.1, .2, .05}};
    const RunSpec rest = {.key_format = key,
                          .value_format = value,
                          .num_tokens = 1600,
                          .per_head = true,
                          .kept_of_heads = {.2, .6, .9},
                          .beside = true};
    for (int s = 0; s < 9; ++s) {
      SequenceSpec sequence{.runs = {best, rest, {.num_tokens = 17 * (s + 1)}},
                            .num_rows = s == 4 ? 40 : 1 + s % 2};
      if (s > 0) sequence.shared = {.sequence = 0, .tokens = 1600};
      spec.sequences.push_back(sequence);
    }
    ExpectAllAgree(format.name, spec);
  }
}

// Layers of a step have runs of the same extents, but not always of the same formats.
TEST(AttentionSegmentsConformance, ThePlanOfALayerServesOthersOfTheSameExtents) {
  const auto spec = [](const std::string& middle) {
    PagedBatchSpec made;
    made.shape = ShapeOf(64, 2, 3);
    const RunSpec guarded = {.key_format = "int8", .value_format = "int8", .num_tokens = 16};
    const RunSpec between = {.key_format = middle, .value_format = "int4", .num_tokens = 1440};
    RunSpec newest = guarded;
    newest.num_tokens = 133;
    made.sequences = {{.runs = {guarded, between, newest}, .num_rows = 1},
                      {.runs = {guarded, between, newest}, .num_rows = 60}};
    return made;
  };
  PagedBatch first(spec("f32"));
  PagedBatch other(spec("int4"));
  const AttentionOutcome expected = Compute(*ReferenceBackendUnderTest(), &other, 1);
  for (const NamedBackend& tested : BackendsUnderTest()) {
    const std::unique_ptr<AttentionPlan> plan = tested.backend->Plan(first.batch());
    std::vector<float> scratch(plan->scratch_bytes() / sizeof(float) + 32);
    void* aligned = scratch.data();
    std::size_t space = scratch.size() * sizeof(float);
    ASSERT_NE(std::align(64, plan->scratch_bytes(), aligned, space), nullptr);
    other.SpoilResults();
    const AttentionTeam team = {.scratch = static_cast<std::byte*>(aligned)};
    tested.backend->Partial(other.batch(), *plan, team);
    tested.backend->Merge(other.batch(), *plan, team);
    ExpectNear(tested.name, {other.out().begin(), other.out().end()}, expected.out,
               BoundOf(tested, spec("int4")));
  }
}

}  // namespace
}  // namespace swiftkv
