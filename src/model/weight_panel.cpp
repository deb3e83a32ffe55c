// SPDX-License-Identifier: Apache-2.0
// Implements unpacking of panels: stretches of 16 rows are turned into floats by ggml and
// transposed while they are in the first-level cache.
#include "model/weight_panel.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "formats/row_conversion.h"

namespace swiftkv {
namespace {

constexpr std::int64_t kStretch = 256;  // inputs; a multiple of every type's block
constexpr std::int64_t kBlock = 4;      // rows and columns that are transposed in registers

using Quad = float __attribute__((vector_size(16)));

Quad LoadQuad(const float* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof(quad));
  return quad;
}

// to[i * to_stride + r] = from[r * kStretch + i] for 4 x 4 values.
void TransposeBlock(const float* from, float* to, std::int64_t to_stride) {
  const Quad a = LoadQuad(from);
  const Quad b = LoadQuad(from + kStretch);
  const Quad c = LoadQuad(from + 2 * kStretch);
  const Quad d = LoadQuad(from + 3 * kStretch);
  const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Quad columns[] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                          __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                          __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                          __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (std::int64_t i = 0; i < kBlock; ++i) {
    std::memcpy(to + i * to_stride, &columns[i], sizeof(Quad));
  }
}

// Writes `inputs` columns of `rows` rows, [kPanelLanes][kStretch], as [inputs, rows].
void Transpose(const float* from, std::int64_t inputs, std::int64_t rows, float* to,
               std::int64_t to_stride) {
  const std::int64_t whole_rows = rows / kBlock * kBlock;
  const std::int64_t whole_inputs = inputs / kBlock * kBlock;
  for (std::int64_t i = 0; i < whole_inputs; i += kBlock) {
    for (std::int64_t r = 0; r < whole_rows; r += kBlock) {
      TransposeBlock(from + r * kStretch + i, to + i * to_stride + r, to_stride);
    }
  }
  for (std::int64_t i = 0; i < inputs; ++i) {
    for (std::int64_t r = i < whole_inputs ? whole_rows : 0; r < rows; ++r) {
      to[i * to_stride + r] = from[r * kStretch + i];
    }
  }
}

// Calls emit(first_input, num_inputs, first_row, num_rows, floats [kPanelLanes][kStretch]) for
// every stretch.
template <typename Emit>
void ForEachStretch(const WeightRows& rows, Emit&& emit) {
  const auto to_float = ggml_get_type_traits(rows.type)->to_float;
  SKV_CHECK(to_float != nullptr || rows.type == GGML_TYPE_F32, "a type without floats");
  const auto* const weights = static_cast<const std::byte*>(rows.weights);
  const std::size_t row_bytes = ggml_row_size(rows.type, rows.inputs);
  alignas(64) float floats[kPanelLanes * kStretch];
  for (std::int64_t row = 0; row < rows.count; row += kPanelLanes) {
    const std::int64_t num_rows = std::min(kPanelLanes, rows.count - row);
    for (std::int64_t input = 0; input < rows.inputs; input += kStretch) {
      const std::int64_t num_inputs = std::min(kStretch, rows.inputs - input);
      const std::byte* from = weights + static_cast<std::size_t>(rows.first + row) * row_bytes +
                              ggml_row_size(rows.type, input);
      for (std::int64_t r = 0; r < num_rows; ++r, from += row_bytes) {
        if (to_float == nullptr || rows.type == GGML_TYPE_F32) {
          std::memcpy(floats + r * kStretch, from, static_cast<std::size_t>(num_inputs) * 4);
        } else {
          to_float(from, floats + r * kStretch, num_inputs);
        }
      }
      emit(input, num_inputs, row, num_rows, floats);
    }
  }
}

}  // namespace

void UnpackPanel(const WeightRows& rows, float* panel) {
  ForEachStretch(rows, [&](std::int64_t input, std::int64_t num_inputs, std::int64_t row,
                           std::int64_t num_rows, const float* floats) {
    Transpose(floats, num_inputs, num_rows, panel + input * rows.count + row, rows.count);
  });
}

void UnpackPanelBf16(const WeightRows& rows, std::uint16_t* panel) {
  const RowConversion& conversion = HostRowConversion();
  ForEachStretch(rows, [&](std::int64_t input, std::int64_t num_inputs, std::int64_t row,
                           std::int64_t num_rows, const float* floats) {
    alignas(64) float lanes[kStretch * kPanelLanes];
    alignas(64) std::uint16_t rounded[kStretch * kPanelLanes];
    Transpose(floats, num_inputs, num_rows, lanes, num_rows);
    conversion.float_to_bf16(lanes, rounded, static_cast<std::size_t>(num_inputs * num_rows));
    for (std::int64_t i = 0; i < num_inputs; ++i) {
      std::memcpy(panel + (input + i) * rows.count + row, rounded + i * num_rows,
                  static_cast<std::size_t>(num_rows) * sizeof(std::uint16_t));
    }
  });
}

}  // namespace swiftkv
