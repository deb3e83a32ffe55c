// SPDX-License-Identifier: Apache-2.0
// Computes powers of two and tanh of 16 floats at once from an instruction set's primitives `S`.
//
// Included by the kernels_<isa>.cpp files only. Everything is a template over a type of an unnamed
// namespace, so no two translation units share an instance and the linker cannot swap one
// instruction set's code for another's.
#pragma once

namespace swiftkv {

// Returns 2^r - 1 for r in [0, 1): r times an interpolation of (2^r - 1) / r at Chebyshev nodes,
// relative error of 2^r 1.2e-8 before rounding.
template <class S>
inline typename S::Vec Exp2MinusOneOfFraction(typename S::Vec r) {
  typename S::Vec p = S::Set(0.000208179146F);
  p = S::Fma(p, r, S::Set(0.00126921665F));
  p = S::Fma(p, r, S::Set(0.0096521955F));
  p = S::Fma(p, r, S::Set(0.0554960221F));
  p = S::Fma(p, r, S::Set(0.240227208F));
  p = S::Fma(p, r, S::Set(0.693147182F));
  return S::Mul(p, r);
}

// Returns 2^x for x below 128, within 1 ulp; 0 for -inf. Results below the smallest normal number
// may be flushed to 0.
template <class S>
inline typename S::Vec Exp2(typename S::Vec x) {
  const typename S::Vec r = S::Fraction(x);
  return S::ScaleByFloor(S::Add(Exp2MinusOneOfFraction<S>(r), S::Set(1.0F)), x);
}

// Returns tanh(x), relative error some ulp also near 0: tanh(x) = t / (t + 2), t = e^2x - 1.
template <class S>
inline typename S::Vec Tanh(typename S::Vec x) {
  using Vec = typename S::Vec;
  const Vec magnitude = S::Min(S::Abs(x), S::Set(10.0F));       // tanh(10) rounds to 1
  const Vec exponent = S::Mul(magnitude, S::Set(2.88539008F));  // 2 / ln 2
  const Vec power = S::ScaleByFloor(S::Set(1.0F), exponent);
  const Vec r = S::Fraction(exponent);
  const Vec t = S::Fma(power, Exp2MinusOneOfFraction<S>(r), S::Sub(power, S::Set(1.0F)));
  return S::CopySign(S::Div(t, S::Add(t, S::Set(2.0F))), x);
}

}  // namespace swiftkv
