// SPDX-License-Identifier: Apache-2.0
// Makes all backends and compares their results value by value.
#include "support/attention_trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "attention/cpu_backend.h"
#include "base/cpu_features.h"
#include "formats/codec_table.h"
#include "support/emulated_tiles.h"

namespace swiftkv {
namespace {

// Returns the index of the first value that is farther than `bound` (absolute, and relative above
// 1) from the expected one, or -1. NaN is far from everything; equal infinities are near.
int FirstFar(const std::vector<float>& actual, const std::vector<float>& expected, float bound) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    const float allowed = bound * std::max(1.0F, std::fabs(expected[i]));
    if (!(std::fabs(actual[i] - expected[i]) <= allowed)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

std::vector<NamedBackend> BackendsUnderTest() {
  std::vector<NamedBackend> backends;
  for (const BackendRow& row : AllAttentionBackends()) {
    if (row.info.name == std::string("reference")) continue;
    for (const Isa isa : AllIsas()) {
      Result<std::unique_ptr<AttentionBackend>> made =
          MakeAttentionBackend(row.info.name, IsaName(isa));
      if (!made.ok()) continue;
      backends.push_back({.name = row.info.name + std::string("/") + IsaName(isa),
                          .backend = std::move(*made),
                          .bound = isa >= Isa::kAvx512Vnni ? kLimbBound : kFloatBound,
                          .tiled = isa == Isa::kAmx,
                          .limbs = isa >= Isa::kAvx512Vnni,
                          .halves = isa >= Isa::kAvx512Fp16 && Runs(HostCpu(), Isa::kAvx512Fp16)});
    }
  }
  backends.push_back(
      {"cpu/emulated amx", std::make_unique<CpuBackend>(*EmulatedAmxKernels()), kLimbBound, true});
  return backends;
}

float BoundOf(const NamedBackend& tested, const PagedBatchSpec& spec) {
  float bound = tested.bound;
  const auto widen = [&bound](bool when, float to) {
    if (when) bound = std::max(bound, to);
  };
  for (const SequenceSpec& sequence : spec.sequences) {
    for (const RunSpec& run : sequence.runs) {
      for (const std::string& format : {run.key_format, run.value_format}) {
        const bool lossy = FindCodec(format).value()->info().bits_per_value < 16;
        widen(tested.tiled && lossy, kTileBound);
        widen(tested.halves && format.starts_with("fp8"), kHalfBound);
      }
      widen(tested.limbs && run.key_format == "int4", kOneLimbBound);
    }
  }
  return bound;
}

std::unique_ptr<AttentionBackend> ReferenceBackendUnderTest() {
  Result<std::unique_ptr<AttentionBackend>> made = MakeAttentionBackend("reference", "auto");
  return std::move(*made);
}

AttentionOutcome Compute(const AttentionBackend& backend, PagedBatch* paged, int num_threads) {
  paged->SpoilResults();
  paged->ClearScores();
  const Status status = Attend(backend, paged->scored_batch(), num_threads);
  EXPECT_TRUE(status.ok()) << status.message();
  return {{paged->out().begin(), paged->out().end()},
          {paged->lse().begin(), paged->lse().end()},
          {paged->scores().begin(), paged->scores().end()}};
}

void ExpectNear(const std::string& what, const std::vector<float>& actual,
                const std::vector<float>& expected, float bound) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const int far = FirstFar(actual, expected, bound);
  if (far < 0) return;
  ADD_FAILURE() << what << " at " << far << ": " << actual[static_cast<std::size_t>(far)]
                << " where the reference has " << expected[static_cast<std::size_t>(far)];
}

void ExpectAllAgree(const std::string& what, const PagedBatchSpec& spec) {
  PagedBatch paged(spec);
  const AttentionOutcome expected = Compute(*ReferenceBackendUnderTest(), &paged, 2);
  for (const NamedBackend& tested : BackendsUnderTest()) {
    const AttentionOutcome actual = Compute(*tested.backend, &paged, 2);
    const std::string label = what + " by " + tested.name;
    const float bound = BoundOf(tested, spec);
    ExpectNear(label + ", out", actual.out, expected.out, bound);
    ExpectNear(label + ", lse", actual.lse, expected.lse, bound);
    for (std::size_t s = 0; s < expected.scores.size(); ++s) {
      ExpectNear(label + ", scores of sequence " + std::to_string(s), actual.scores[s],
                 expected.scores[s], bound);
    }
  }
}

AttentionShape ShapeOf(int head_dim, int kv_heads, int group) {
  return {.num_heads = kv_heads * group,
          .num_kv_heads = kv_heads,
          .head_dim = head_dim,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

SequenceSpec Dense(int num_tokens, int num_rows, const std::string& key_format,
                   const std::string& value_format) {
  return {
      .runs = {{.key_format = key_format, .value_format = value_format, .num_tokens = num_tokens}},
      .num_rows = num_rows};
}

}  // namespace swiftkv
