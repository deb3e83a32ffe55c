// SPDX-License-Identifier: Apache-2.0
// Defines the seam of linear layers: products of rows of activations with a weight matrix as the
// file holds it.
//
// A backend makes a LinearProduct for a shape and a number of rows on the owner's thread; the
// threads of ggml's team then compute disjoint panels of outputs with it, inside a node of the
// graph, so that no second team wants the cores. The content of an output never depends on which
// thread computes it. `ggml` itself has a row in the table and no backend: its products are nodes
// of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "ggml.h"

namespace swiftkv {

// A matrix of `outputs` rows of `inputs` values of a ggml type, row by row.
struct LinearShape {
  ggml_type type = GGML_TYPE_F32;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;

  friend bool operator<(const LinearShape& a, const LinearShape& b) {
    return std::tie(a.type, a.inputs, a.outputs) < std::tie(b.type, b.inputs, b.outputs);
  }
};

// Rows of activations: `floats` [rows, inputs] f32 back to back, or what Prepare made of them.
struct LinearInputs {
  const float* floats = nullptr;  // null for Multiply where rows are prepared
  int rows = 0;
  std::int64_t inputs = 0;
  const std::byte* prepared = nullptr;  // aligned to 64; null where PreparedBytes is 0
};

// Consecutive outputs of a matrix, for all rows: value o of row r goes to
// out[r * out_stride + o - first_output].
struct LinearPanel {
  const void* weights = nullptr;  // of the whole matrix
  std::int64_t first_output = 0;
  std::int64_t num_outputs = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  const std::byte* packed = nullptr;  // what Pack made of the whole matrix, or null
  // What the same thread probably multiplies by after that, to prefetch; null where unknown.
  const std::byte* next_weights = nullptr;
  std::int64_t next_bytes = 0;
};

// Multiplies with matrices of one shape and rows of one number. Called by several threads at once.
class LinearProduct {
 public:
  virtual ~LinearProduct() = default;
  // Outputs of a panel; every panel of a matrix but the last one has as many.
  virtual std::int64_t panel_outputs() const = 0;
  // Memory that Multiply needs of its thread, aligned to 64.
  virtual std::size_t scratch_bytes() const = 0;
  virtual void Multiply(const LinearInputs& inputs, const LinearPanel& panel,
                        std::byte* scratch) const = 0;
};

class LinearBackend {
 public:
  virtual ~LinearBackend() = default;
  // Whether this machine has a product of its own for the shape.
  virtual bool Serves(const LinearShape& shape) const = 0;
  // Whether it is made for single rows too, so that a weight needs no layout of ggml's beside.
  virtual bool ServesFewRows(const LinearShape& shape) const = 0;
  // Memory of the form in which the rows are multiplied; 0: they are taken as they are. One form
  // serves every matrix of as many inputs.
  virtual std::size_t PreparedBytes(int rows, std::int64_t inputs) const = 0;
  // Makes that form; each thread does its share of the rows.
  virtual void Prepare(const LinearInputs& inputs, std::byte* prepared, int thread,
                       int num_threads) const = 0;
  // Returns null where the library behind the backend refuses the shape. `out_stride` is that of
  // the panels.
  virtual std::unique_ptr<LinearProduct> Make(const LinearShape& shape, int rows,
                                              std::int64_t out_stride) const = 0;
  // Memory of a whole matrix as Multiply unpacks it, aligned to 64; 0 where nothing is gained by
  // keeping it.
  virtual std::size_t PackedBytes(const LinearShape& shape) const = 0;
  virtual void Pack(const LinearShape& shape, const void* weights, std::byte* packed) const = 0;
};

struct LinearBackendRow {
  const char* name;
  const char* description;                   // one line
  std::unique_ptr<LinearBackend> (*make)();  // null for ggml
};

// Lists every backend of this build, ggml first.
std::span<const LinearBackendRow> AllLinearBackends();

}  // namespace swiftkv
