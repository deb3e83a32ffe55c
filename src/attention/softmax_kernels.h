// SPDX-License-Identifier: Apache-2.0
// Turns the scores of a batch into weights: softcap, visibility, the online softmax, and
// probabilities from a known log-sum-exp.
//
// Scores come in units of ln 2, so that weights are powers of two and no step pays for the factor.
// Online softmax: Milakov and Gimelshein, arXiv:1805.02867. Sums are rescaled only when a maximum
// rises, which is rare after the first batches. Included by the kernels_<isa>.cpp files only; see
// vector_math.h on templates over `S`.
#pragma once

#include <cstdint>

#include "attention/kernels.h"
#include "attention/vector_math.h"

namespace swiftkv {

inline constexpr float kMinusInfinity = -__builtin_inff();

// AttentionKernels::adjust_scores
template <class S>
void AdjustScores(const ScoreAdjustment& adjustment) {
  using Vec = typename S::Vec;
  const float softcap = adjustment.softcap;
  for (int v = 0; v < adjustment.vectors; ++v) {
    float* scores = adjustment.scores + v * kBatchTokens;
    for (int slot = 0; slot < adjustment.pages * kPageTokens; slot += kPageTokens) {
      Vec score = S::Load(scores + slot);
      if (softcap > 0) {
        score = S::Mul(S::Set(softcap), Tanh<S>(S::Div(score, S::Set(softcap))));
      }
      if (adjustment.positions != nullptr) {
        score = S::WhereInRange(adjustment.positions + slot, adjustment.first_visible[v],
                                adjustment.last_visible[v], score, S::Set(kMinusInfinity));
      }
      S::Store(scores + slot, score);
    }
  }
}

template <class S>
inline void ScaleRow(float* row, int count, typename S::Vec factor) {
  for (int i = 0; i < count; i += 16) S::Store(row + i, S::Mul(S::Load(row + i), factor));
}

// AttentionKernels::softmax_step
template <class S>
void AdvanceSoftmax(const SoftmaxStep& step) {
  using Vec = typename S::Vec;
  const int slots = step.pages * kPageTokens;
  for (int v = 0; v < step.vectors; ++v) {
    float* scores = step.scores + v * kBatchTokens;
    Vec highest = S::Load(scores);
    for (int slot = 16; slot < slots; slot += 16) {
      highest = S::Max(highest, S::Load(scores + slot));
    }
    const float max = S::ReduceMax(highest);
    if (max > step.max[v]) {
      const Vec factor = Exp2<S>(S::Set(step.max[v] - max));
      ScaleRow<S>(step.out + v * step.out_stride, step.head_dim, factor);
      ScaleRow<S>(step.sums + v * 16, 16, factor);
      step.max[v] = max;
    }
    // Nothing visible so far: any finite maximum turns the scores, all -inf, into weights of 0.
    const Vec base = S::Set(step.max[v] == kMinusInfinity ? 0.0F : step.max[v]);
    Vec sum = S::Load(step.sums + v * 16);
    for (int slot = 0; slot < slots; slot += 16) {
      const Vec weight = Exp2<S>(S::Sub(S::Load(scores + slot), base));
      sum = S::Add(sum, weight);
      S::Store(scores + slot, weight);
    }
    S::Store(step.sums + v * 16, sum);
  }
}

// AttentionKernels::tally
template <class S>
void Tally(const float* scores, const float* lse, int vectors, int pages, float* sums) {
  for (int v = 0; v < vectors; ++v) {
    if (lse[v] == kMinusInfinity) continue;
    const typename S::Vec base = S::Set(lse[v]);
    for (int slot = 0; slot < pages * kPageTokens; slot += 16) {
      const typename S::Vec weight =
          Exp2<S>(S::Sub(S::Load(scores + v * kBatchTokens + slot), base));
      S::Store(sums + slot, S::Add(S::Load(sums + slot), weight));
    }
  }
}

}  // namespace swiftkv
