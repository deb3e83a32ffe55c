// SPDX-License-Identifier: Apache-2.0
// Times linear backends side by side on a model's own weights.
#pragma once

#include <span>
#include <vector>

#include "model/linear_backend.h"

namespace swiftkv {

// Returns the seconds that each backend (null: ggml) takes to multiply `rows` rows by one of the
// matrices, which are alike in shape. Backends take turns, over so many of the matrices that few
// rows find them in memory rather than in a cache, and the fastest of some rounds counts.
std::vector<double> MeasureProducts(std::span<const ggml_tensor* const> matrices,
                                    std::span<const LinearBackend* const> backends, int rows,
                                    int threads);

}  // namespace swiftkv
