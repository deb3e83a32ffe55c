// SPDX-License-Identifier: Apache-2.0
// Instantiates the byte dot products for AVX-512 VNNI; everything else is as in kernels_avx512.cpp.
#include "attention/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include <immintrin.h>

#include "attention/byte_dot_kernels.h"

namespace swiftkv {
namespace {

struct Vnni {
  template <int kHalf>
  static __m512i Lookup(__m512i table, __m512i codes) {
    if constexpr (kHalf == 1) codes = _mm512_srli_epi16(codes, 4);
    return _mm512_shuffle_epi8(table, _mm512_and_si512(codes, _mm512_set1_epi8(15)));
  }
};

AttentionKernels MakeVnniKernels() {
  AttentionKernels kernels = *Avx512Kernels();
  kernels.isa = "avx512vnni";
  ByteDotKernels<Vnni>::Install(&kernels);
  return kernels;
}

}  // namespace

const AttentionKernels* Avx512VnniKernels() {
  static const AttentionKernels kernels = MakeVnniKernels();
  return &kernels;
}

}  // namespace swiftkv

#else

namespace swiftkv {
const AttentionKernels* Avx512VnniKernels() { return nullptr; }
}  // namespace swiftkv

#endif
