// SPDX-License-Identifier: Apache-2.0
// Fills the table of kernels from one instruction set's primitives.
//
// Included by the kernels_<isa>.cpp files only. The primitives `S` of an instruction set are:
//     Vec                              16 floats
//     kAccumulators                    Vecs that may hold sums beside operands
//     kMaxVectors                      query vectors that the few-rows kernels take at once
//     kTileRows, kTileVecs             the block of a matrix product
//     Set, Load, Store, Add, Sub, Mul, Div, Fma(a, b, c) = a b + c, Min, Max, Abs, CopySign
//     ReduceMax(v)                     the largest lane
//     Fraction(x)                      x - floor(x); anything for -inf
//     ScaleByFloor(v, x)               v 2^floor(x) for v in [1, 2] and x < 128; 0 for x = -inf,
//                                      also where the result would be subnormal if need be
//     LoadHalves(p)                    16 f16
//     LoadBrains(p, even, odd)         16 pairs of bf16
//     WhereInRange(p, lo, hi, a, b)    a in lanes where lo <= p[lane] <= hi, else b
//     Prefetch(p)                      into the first cache
#pragma once

#include "attention/few_rows_kernels.h"
#include "attention/kernels.h"
#include "attention/row_tile_kernels.h"
#include "attention/softmax_kernels.h"

namespace swiftkv {

template <class S>
constexpr AttentionKernels MakeKernels(const char* isa) {
  using F32 = F32Reader<S>;
  using F16 = F16Reader<S>;
  using Bf16 = Bf16Reader<S>;
  return {.isa = isa,
          .dot = {Dot<S, F32>, Dot<S, F16>, Dot<S, Bf16>},
          .weigh = {Weigh<S, F32>, Weigh<S, F16>, Weigh<S, Bf16>},
          .adjust_scores = AdjustScores<S>,
          .softmax_step = AdvanceSoftmax<S>,
          .unpack_keys = {UnpackKeys<S, F32>, UnpackKeys<S, F16>, UnpackKeys<S, Bf16>},
          .unpack_values = {UnpackValues<S, F32>, UnpackValues<S, F16>, UnpackValues<S, Bf16>},
          .multiply = Multiply<S>,
          .tally = Tally<S>};
}

}  // namespace swiftkv
