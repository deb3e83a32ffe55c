// SPDX-License-Identifier: Apache-2.0
// Keeps matrices unpacked in memory, as far as a limit allows, so that no step unpacks them again.
//
// Owner: the model. Filled while it loads, in the order of use; read-only from then on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/aligned_memory.h"
#include "model/linear_choice.h"
#include "swiftkv/status.h"

namespace swiftkv {

// How much memory unpacked weights may take.
struct PackedLimit {
  bool automatic = false;  // all that gain by it, in at most a quarter of the memory at hand
  std::uint64_t bytes = 0;
};

// Reads "off", "auto" or a size. Errors: InvalidArgument with what is accepted.
Result<PackedLimit> ParsePackedLimit(const std::string& text);

class PackedWeights {
 public:
  // Packs the matrices whose backend at many rows gains by it, one after the other while they fit.
  // Errors: ResourceExhausted where memory within the limit is not to be had.
  Status Pack(std::span<const ggml_tensor* const> matrices, const LinearChoice& choice,
              const PackedLimit& limit);

  // What `backend` made of the weight; null where it was not packed, or for another one.
  const std::byte* Find(const ggml_tensor* weight, const LinearBackend* backend) const;
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    const LinearBackend* backend = nullptr;
    AlignedBytes memory;
  };
  std::map<const ggml_tensor*, Entry> entries_;
  std::uint64_t bytes_ = 0;
};

}  // namespace swiftkv
