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
//     LoadFp8<kMantissa>(p, vecs)      16 groups of 4 codes: code i of every group as vecs[i], its
//                                      exponent and mantissa moved into place
//     Bytes                            16 groups of 4 signed bytes
//     LoadBiased(p)                    64 bytes less 128
//     LoadLevels(p, low, high)         the levels (kInt4Levels) of 64 low and 64 high nibbles
//     SpreadBytes(bytes, vecs)         byte i of every group as vecs[i], i from 0 to 3
//     WhereInRange(p, lo, hi, a, b)    a in lanes where lo <= p[lane] <= hi, else b
//     Prefetch(p)                      into the first cache
#pragma once

#include "attention/few_rows_kernels.h"
#include "attention/kernels.h"
#include "attention/row_tile_kernels.h"
#include "attention/softmax_kernels.h"

namespace swiftkv {

// The kernels of every format, in the order of FormatId.
template <class S, class... Readers>
constexpr AttentionKernels MakeKernelsOf(const char* isa) {
  static_assert(sizeof...(Readers) == kNumKernelFormats);
  return {.isa = isa,
          .prepare_queries = nullptr,
          .dot = {Dot<S, Readers>...},
          .weigh = {Weigh<S, Readers>...},
          .tiles_stay_packed = {},
          .adjust_scores = AdjustScores<S>,
          .softmax_step = AdvanceSoftmax<S>,
          .unpack_keys = {UnpackKeys<S, Readers>...},
          .unpack_values = {UnpackValues<S, Readers>...},
          .multiply = Multiply<S>,
          .tally = Tally<S>};
}

template <class S>
constexpr AttentionKernels MakeKernels(const char* isa) {
  return MakeKernelsOf<S, F32Reader<S>, F16Reader<S>, Bf16Reader<S>, E4m3Reader<S>, E5m2Reader<S>,
                       Int8Reader<S>, Int4Reader<S>>(isa);
}

}  // namespace swiftkv
