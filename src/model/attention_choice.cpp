// SPDX-License-Identifier: Apache-2.0
// Chooses the attention backend and its instruction set from a model's options.
#include <string>

#include "base/cpu_features.h"
#include "base/status_macros.h"
#include "model/language_model.h"

namespace swiftkv {

Result<std::unique_ptr<AttentionBackend>> MakeAttentionBackend(const ModelOptions& options) {
  const bool has_sets = options.attention_backend != "reference";
  if (!options.precise || !has_sets) {
    return MakeAttentionBackend(options.attention_backend, options.isa);
  }
  if (options.isa == "auto") {
    return MakeAttentionBackend(options.attention_backend, IsaName(BestF32Isa(HostCpu())));
  }
  SKV_ASSIGN_OR_RETURN(const Isa isa, ParseIsa(options.isa));
  if (!ComputesInF32(isa)) {
    return Status::InvalidArgument(
        "precise attention is computed in f32, by the instruction sets portable, avx2 and avx512, "
        "not: " +
        options.isa);
  }
  return MakeAttentionBackend(options.attention_backend, options.isa);
}

}  // namespace swiftkv
