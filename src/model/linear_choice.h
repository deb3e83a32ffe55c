// SPDX-License-Identifier: Apache-2.0
// Decides which backend multiplies by a weight, per shape and number of rows.
//
// Immutable once a model is loaded. Weights in one of ggml's own layouts stay with ggml.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/linear_backend.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Numbers of rows at which backends are compared; a step of r rows goes by the largest of them that
// is <= r.
inline constexpr int kMeasuredRows[] = {1, 4, 16, 64, 256};
inline constexpr std::size_t kNumMeasuredRows = std::size(kMeasuredRows);

// Raised with a change of a backend's speed, so that older choices are measured anew.
inline constexpr int kLinearVersion = 2;

class LinearChoice {
 public:
  // Everything by ggml.
  LinearChoice() = default;

  // Makes the backends that `mode` may use: the name of one, or kMeasuredLinear (language_model.h).
  // Errors: InvalidArgument with what is accepted.
  static Result<LinearChoice> Create(std::string_view mode);

  // Whether products with such a weight are better off with its bytes as the file has them than in
  // a layout of ggml's.
  bool WantsAsItLies(const LinearShape& shape) const;

  // Compares the backends on the matrices of a model, all in the file's layout or ggml's, with a
  // team of `threads`; without `auto` it does nothing. A shape takes some 20 milliseconds in a
  // small model and up to two seconds in a large one.
  void Measure(std::span<const ggml_tensor* const> weights, int threads);

  // Returns the time that the matrices together take for one of many rows; 0 where one of them was
  // not measured.
  double SecondsPerRow(std::span<const ggml_tensor* const> weights) const;

  // The measured choices as text, one line each, and back. Parse returns false and changes nothing
  // where the text is not what Text wrote or does not cover the weights.
  std::string Text() const;
  bool Parse(const std::string& text, std::span<const ggml_tensor* const> weights);

  bool measures() const { return candidates_.size() > 1; }

  // Null: ggml.
  const LinearBackend* Find(const ggml_tensor& weight, int rows) const;

 private:
  struct Candidate {
    const char* name = nullptr;
    std::unique_ptr<LinearBackend> backend;  // null for ggml
  };
  struct Measured {
    std::array<std::size_t, kNumMeasuredRows> by_rows{};  // indices of candidates
    double seconds_per_row = 0;                           // at the most rows
  };

  std::vector<Candidate> candidates_;  // one where it is forced
  std::map<LinearShape, Measured> chosen_;
};

// Whether the weight's bytes are the file's, row by row, and not in a layout of ggml's.
bool LiesAsInFile(const ggml_tensor& weight);

}  // namespace swiftkv
