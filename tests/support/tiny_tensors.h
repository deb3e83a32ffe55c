// SPDX-License-Identifier: Apache-2.0
// Lists the tensors of a tiny model and fills them, without any model library.
//
// Values depend on the model's seed and the tensor's name only, so adding a tensor changes no
// other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/tiny_model.h"

namespace swiftkv {

// One tensor whose elements are drawn from N(mean, deviation).
struct TinyTensor {
  std::string name;
  std::vector<int64_t>
      shape;  // [columns, rows] or [columns], GGUF's order: the contiguous one first
  float mean = 0.0F;
  float deviation = 1.0F;
  // Where not empty, the values themselves (rope factors), and mean and deviation are not used.
  std::vector<float> values;
};

// Returns every tensor of `model` with `vocabulary` tokens, in file order.
std::vector<TinyTensor> TinyTensors(const TinyModel& model, int vocabulary);

// Returns the elements of `tensor`, as many as its shape says.
std::vector<float> TinyTensorValues(const TinyTensor& tensor, uint64_t seed);

}  // namespace swiftkv
