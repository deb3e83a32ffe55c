// SPDX-License-Identifier: Apache-2.0
// Computes exp and tanh of 16 floats at once from an instruction set's primitives `S`.
//
// Included by the kernels_<isa>.cpp files only. Everything is a template over a type of an unnamed
// namespace, so no two translation units share an instance and the linker cannot swap one
// instruction set's code for another's.
#pragma once

namespace swiftkv {

// x = n ln2 + r with integral n and |r| <= ln2 / 2; ln2 is split so that n times its high part is
// exact.
template <class S>
struct Reduced {
  typename S::Vec n;
  typename S::Vec r;
};

template <class S>
inline Reduced<S> ReduceByLn2(typename S::Vec x) {
  const typename S::Vec n = S::Round(S::Mul(x, S::Set(1.44269504F)));
  const typename S::Vec r = S::Fma(n, S::Set(-0.693115234375F), x);
  return {n, S::Fma(n, S::Set(-3.19461833e-05F), r)};
}

// Returns e^r - 1 for |r| <= ln2 / 2: interpolation of (e^r - 1 - r) / r^2 at Chebyshev nodes,
// relative error of e^r 1.1e-8 before rounding.
template <class S>
inline typename S::Vec ExpMinusOneReduced(typename S::Vec r) {
  typename S::Vec p = S::Set(0.0013926184F);
  p = S::Fma(p, r, S::Set(0.00836317893F));
  p = S::Fma(p, r, S::Set(0.0416665561F));
  p = S::Fma(p, r, S::Set(0.166665763F));
  p = S::Fma(p, r, S::Set(0.5F));
  return S::Fma(S::Mul(r, r), p, r);
}

// Returns e^x for x <= 88, within 2 ulp; 0 for x below -87.3 (results that would be subnormal) and
// for -inf.
template <class S>
inline typename S::Vec Exp(typename S::Vec x) {
  constexpr float kLowest = -87.3F;
  const Reduced<S> reduced = ReduceByLn2<S>(S::Max(x, S::Set(kLowest)));
  const typename S::Vec e = S::Add(ExpMinusOneReduced<S>(reduced.r), S::Set(1.0F));
  return S::ZeroBelow(x, kLowest, S::ScaleByPowerOfTwo(e, reduced.n));
}

// Returns tanh(x), relative error some ulp also near 0: tanh(x) = t / (t + 2), t = e^2x - 1.
template <class S>
inline typename S::Vec Tanh(typename S::Vec x) {
  using Vec = typename S::Vec;
  const Vec magnitude = S::Min(S::Abs(x), S::Set(10.0F));  // tanh(10) rounds to 1
  const Reduced<S> reduced = ReduceByLn2<S>(S::Add(magnitude, magnitude));
  const Vec power = S::ScaleByPowerOfTwo(S::Set(1.0F), reduced.n);
  const Vec t = S::Fma(power, ExpMinusOneReduced<S>(reduced.r), S::Sub(power, S::Set(1.0F)));
  return S::CopySign(S::Div(t, S::Add(t, S::Set(2.0F))), x);
}

}  // namespace swiftkv
