// SPDX-License-Identifier: Apache-2.0
// Rotates rows by a Hadamard transform, which spreads outlier channels evenly.
//
// y = H x with H block-diagonal: Walsh-Hadamard matrices of size n, the largest power of two that
// divides head_dim, each scaled by 1 / sqrt(n). H is symmetric and orthogonal: it is its own
// inverse and keeps dot products, so dot(q, k) = dot(Hq, Hk) and a sum of rotated values is rotated
// back once. Used before 4-bit quantisation as in QuaRot, arXiv:2404.00456.
#pragma once

namespace swiftkv {

// Rotates row [head_dim] in place; head_dim is a multiple of 16. Calling it twice gives the row
// back, up to rounding.
void RotateRow(float* row, int head_dim);

// Returns the size of a block: the largest power of two that divides head_dim.
constexpr int RotationBlock(int head_dim) { return head_dim & -head_dim; }

}  // namespace swiftkv
