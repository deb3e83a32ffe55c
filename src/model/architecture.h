// SPDX-License-Identifier: Apache-2.0
// Defines the seam of model families: how a GGUF's metadata becomes a DecoderSpec.
//
// One parametric decoder (decoder_graph.cpp) computes every family; a family is one short file and
// one row here.
#pragma once

#include <span>
#include <string_view>

#include "model/decoder_spec.h"
#include "swiftkv/status.h"

namespace swiftkv {

class GgufFile;

// What the caller wants of the model, as far as it changes the decoder.
struct DecodeLimits {
  int context = 0;  // 0: the model's maximum. LongRoPE picks its factors by it.
};

class Architecture {
 public:
  virtual const char* name() const = 0;         // value of general.architecture
  virtual const char* description() const = 0;  // families served, for help

  // Errors: DataLoss for missing or senseless metadata, Unsupported for a feature named in it; both
  // name key and value.
  virtual Result<DecoderSpec> Describe(const GgufFile& file, const DecodeLimits& limits) const = 0;

 protected:
  ~Architecture() = default;
};

// Lists every family that this build serves.
std::span<const Architecture* const> AllArchitectures();

// Errors: Unsupported with the list of names.
Result<const Architecture*> FindArchitecture(std::string_view name);

}  // namespace swiftkv
