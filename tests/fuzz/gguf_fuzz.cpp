// SPDX-License-Identifier: Apache-2.0
// Feeds any bytes as a GGUF to everything that reads one; an error is fine, a fault or a bad logit
// is not.
#include <cstddef>
#include <cstdint>
#include <string>

#include "support/model_trial.h"

// A non-finite logit is no fault here: random weights may be NaN or infinite. hostile_load_test.cpp
// checks it where the weights are known to be sound.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(data, data + size);
  const swiftkv::Status status = swiftkv::TryModelBytes(bytes);
  return status.ok() || !status.message().empty() ? 0 : -1;
}
