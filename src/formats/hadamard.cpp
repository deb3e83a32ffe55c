// SPDX-License-Identifier: Apache-2.0
// Computes the fast Walsh-Hadamard transform of rows in registers of four floats.
#include "formats/hadamard.h"

#include <cmath>
#include <cstring>

#include "base/check.h"

namespace swiftkv {
namespace {

using Quad = float __attribute__((vector_size(16)));

Quad Load(const float* p) {
  Quad quad;
  std::memcpy(&quad, p, sizeof(quad));
  return quad;
}

void Store(float* p, Quad quad) { std::memcpy(p, &quad, sizeof(quad)); }

// The stages of distance 1 and 2, and the scale.
Quad RotateQuad(Quad x, Quad factor) {
  using Index = int __attribute__((vector_size(16)));
  const Quad pairs = __builtin_shuffle(x, Index{1, 0, 3, 2});
  const Quad first = pairs + x * Quad{1, -1, 1, -1};
  const Quad halves = __builtin_shuffle(first, Index{2, 3, 0, 1});
  return (halves + first * Quad{1, 1, -1, -1}) * factor;
}

}  // namespace

void RotateRow(float* row, int head_dim) {
  const int block = RotationBlock(head_dim);
  SKV_CHECK(block >= 16);
  const float factor = 1.0F / std::sqrt(static_cast<float>(block));
  const Quad factors = {factor, factor, factor, factor};
  for (int i = 0; i < head_dim; i += 4) Store(row + i, RotateQuad(Load(row + i), factors));
  for (int distance = 4; distance < block; distance *= 2) {
    for (int start = 0; start < head_dim; start += 2 * distance) {
      float* const low = row + start;
      float* const high = low + distance;
      for (int i = 0; i < distance; i += 4) {
        const Quad a = Load(low + i);
        const Quad b = Load(high + i);
        Store(low + i, a + b);
        Store(high + i, a - b);
      }
    }
  }
}

}  // namespace swiftkv
