// SPDX-License-Identifier: Apache-2.0
// Holds every backend against the reference where sequences of a batch share pages.
//
// The reference knows nothing of sharing: it decodes each sequence's pages by themselves.
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

// A sanitizer looks for faults, not for rounding: one case in eleven reaches every path.
bool Skips(std::uint32_t turn) { return kSanitized && turn % 11 != 0; }

struct Pattern {
  std::string name;
  std::vector<SequenceSpec> sequences;
};

SequenceSpec Sharing(int with, int shared_tokens, SequenceSpec sequence) {
  sequence.shared = {.sequence = with, .tokens = shared_tokens};
  return sequence;
}

// `key` and `value` are the formats of all pages.
std::vector<Pattern> Patterns(const std::string& key, const std::string& value) {
  const auto dense = [&](int tokens, int rows) { return Dense(tokens, rows, key, value); };
  std::vector<Pattern> patterns;
  patterns.push_back({"nothing shared", {dense(700, 1), dense(90, 1), dense(1100, 2)}});

  Pattern all{"all but the tail", {dense(1700, 1)}};
  for (int s = 1; s < 9; ++s) all.sequences.push_back(Sharing(0, 1696, dense(1696 + 7 * s, 1)));
  patterns.push_back(all);

  // Eight share 512 tokens, four of these 1024, two of these 1344; the ninth shares with the last.
  Pattern nested{"nested", {dense(1501, 1)}};
  for (int s = 1; s < 8; ++s) {
    const int shared = s < 2 ? 1344 : s < 4 ? 1024 : 512;
    nested.sequences.push_back(Sharing(0, shared, dense(1400 + 16 * s, 1 + s % 2)));
  }
  nested.sequences.push_back(Sharing(7, 1024, dense(1040, 1)));
  patterns.push_back(nested);

  // A frame whose last slots are valid for the sequence that wrote it only.
  Pattern partial{"a partial last page", {dense(600, 1)}};
  for (const int length : {590, 586, 577, 513, 600, 512}) {
    partial.sequences.push_back(Sharing(0, length, dense(length, 1)));
  }
  patterns.push_back(partial);

  Pattern mixed{"prefills beside decodes", {dense(900, 50)}};
  mixed.sequences.push_back(Sharing(0, 768, dense(860, 60)));
  for (int s = 2; s < 6; ++s)
    mixed.sequences.push_back(Sharing(0, 768, dense(760 + 20 * s, s - 1)));
  mixed.sequences.push_back(dense(300, 1));
  patterns.push_back(mixed);
  return patterns;
}

TEST(AttentionSharingConformance, EverySharingPatternAndFormatAgreesWithTheReference) {
  const int windows[] = {0, 600, 0, 129, 1040};
  const int groups[] = {3, 1, 8, 4, 2, 5, 7};
  std::uint32_t turn = 0;
  for (const NamedPageFormat& format : AllPageFormats()) {
    const std::string key = format.format.key->info().name;
    const std::string value = format.format.value->info().name;
    for (const Pattern& pattern : Patterns(key, value)) {
      for (const int head_dim : {turn % 3 == 0 ? 128 : 80, 64}) {
        if (Skips(++turn)) continue;
        PagedBatchSpec spec;
        spec.shape = ShapeOf(head_dim, 2, groups[turn % 7]);
        spec.shape.window = windows[turn % 5];
        spec.shape.softcap = turn % 6 == 0 ? 4.0F : 0.0F;
        spec.seed = turn;
        spec.sequences = pattern.sequences;
        ExpectAllAgree(pattern.name + " in " + format.name + " head_dim " +
                           std::to_string(head_dim) + " group " + std::to_string(groups[turn % 7]) +
                           " window " + std::to_string(spec.shape.window),
                       spec);
      }
    }
  }
}

// Rows stand at different places behind the edge of a window that lies in the shared pages.
TEST(AttentionSharingConformance, WindowsAroundTheEdgeOfWhatIsSharedAgreeWithTheReference) {
  for (const int window : {1, 16, 100, 128, 200, 256, 400, 513, 640}) {
    if (Skips(static_cast<std::uint32_t>(window))) continue;
    PagedBatchSpec spec;
    spec.shape = ShapeOf(64, 2, 3);
    spec.shape.window = window;
    spec.sequences = {Dense(700, 1)};
    for (const int length : {641, 650, 656, 690, 700, 760, 900}) {
      spec.sequences.push_back(Sharing(0, 640, Dense(length, 1 + length % 3)));
    }
    ExpectAllAgree("window " + std::to_string(window), spec);
  }
}

// Sinks in f32, a forgotten stretch whose heads keep different tokens, then other formats.
SequenceSpec Compressed(int tail_tokens) {
  return {
      .runs = {{.key_format = "f32", .value_format = "f32", .num_tokens = 16},
               {.key_format = "f16", .value_format = "bf16", .num_tokens = 1504, .per_head = true},
               {.key_format = "bf16", .value_format = "f16", .num_tokens = 400},
               {.num_tokens = tail_tokens}}};
}

TEST(AttentionSharingConformance, SharedRunsOfSeveralFormatsWithGapsAgreeWithTheReference) {
  for (const int window : {0, 300, 1200}) {
    PagedBatchSpec spec;
    spec.shape = ShapeOf(64, 3, 3);
    spec.shape.window = window;
    spec.sequences = {Compressed(40)};
    for (const int tail : {1, 17, 300, 129}) {
      spec.sequences.push_back(Sharing(0, tail % 2 == 0 ? 1920 : 1520, Compressed(tail)));
    }
    spec.sequences.push_back(Dense(500, 1));
    ExpectAllAgree("window " + std::to_string(window), spec);
  }
}

TEST(AttentionSharingConformance, ResultsAreTheSameBitsForAnyNumberOfThreads) {
  for (const Pattern& pattern : Patterns("f16", "f16")) {
    PagedBatchSpec spec;
    spec.shape = ShapeOf(64, 3, 3);
    spec.sequences = pattern.sequences;
    PagedBatch paged(spec);
    for (const NamedBackend& tested : BackendsUnderTest()) {
      const AttentionOutcome one = Compute(*tested.backend, &paged, 1);
      for (const int threads : {2, 3, 7}) {
        const AttentionOutcome many = Compute(*tested.backend, &paged, threads);
        EXPECT_EQ(many.out, one.out) << pattern.name << " by " << tested.name;
        EXPECT_EQ(many.lse, one.lse) << pattern.name << " by " << tested.name;
        EXPECT_EQ(many.scores, one.scores) << pattern.name << " by " << tested.name;
      }
    }
  }
}

TEST(AttentionSharingConformance, ARowsResultHardlyDependsOnWhoSharesItsPages) {
  PagedBatchSpec together;
  together.shape = ShapeOf(64, 3, 3);
  together.sequences = {Dense(1200, 1)};
  for (int s = 1; s < 12; ++s) together.sequences.push_back(Sharing(0, 1184, Dense(1190 + s, 1)));
  PagedBatch paged(together);
  for (const NamedBackend& tested : BackendsUnderTest()) {
    const AttentionOutcome all = Compute(*tested.backend, &paged, 2);
    AttentionBatch batch = paged.batch();
    batch.sequences = batch.sequences.first(1);
    ASSERT_TRUE(Attend(*tested.backend, batch, 2).ok());
    const std::size_t values = 9 * 64;
    const std::vector<float> first(all.out.begin(), all.out.begin() + values);
    const std::vector<float> single(paged.out().begin(), paged.out().begin() + values);
    ExpectNear(tested.name, first, single, 2e-6F);
  }
}

}  // namespace
}  // namespace swiftkv
