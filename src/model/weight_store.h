// SPDX-License-Identifier: Apache-2.0
// Holds a model's weights in memory: mapped from the file where the CPU computes with them as they
// lie, private copies where it wants another layout.
//
// Owner: the model. Tensors are read-only after Load. Each matrix asks ggml's extra buffer types
// (AMX tiles, interleaved rows) first, unless another linear backend wants it as it lies. Mapped
// pages whose content was copied are given back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/decoder_weights.h"
#include "model/gguf_file.h"
#include "model/linear_choice.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct WeightOptions {
  bool use_extra_buffers = true;
  const LinearChoice* linear = nullptr;  // keeps what it wants out of extra buffers; may be null
  // Called with done in [0, 1]; returning false cancels. May be empty.
  std::function<bool(double done)> progress;
};

class WeightStore {
 public:
  // Fills every slot's target. Errors: DataLoss for a missing tensor, a wrong shape or a file that
  // shrank; Unsupported for a tensor that no slot wants or a type that ggml does not compute;
  // ResourceExhausted; Cancelled.
  static Result<std::unique_ptr<WeightStore>> Load(const GgufFile& file,
                                                   std::span<const WeightSlot> slots,
                                                   const WeightOptions& options);
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  std::uint64_t mapped_bytes() const;   // of tensors used where the file is mapped
  std::uint64_t private_bytes() const;  // of copies

  // Errors: DataLoss when a file shrank, so that touching its mapping would raise SIGBUS.
  Status CheckFiles() const;

 private:
  struct State;
  class Loader;
  explicit WeightStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace swiftkv
