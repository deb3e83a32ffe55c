// SPDX-License-Identifier: Apache-2.0
// Holds means and covariances of a model's queries, measured on some text: for prefixes that bring
// no queries of their own. Layer: engine.
#pragma once

#include <string>
#include <vector>

namespace swiftkv {

// Of one layer's queries before RoPE.
struct LayerQueryFigures {
  std::vector<float> mean;        // [num_heads, head_dim]
  std::vector<float> covariance;  // [num_heads, head_dim, head_dim]
};

struct ModelQueryFigures {
  std::string fingerprint;                // of the figures: part of what a segment's recipe names
  std::vector<LayerQueryFigures> layers;  // [layers]; empty where a layer has a window
};

}  // namespace swiftkv
