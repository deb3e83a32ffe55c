// SPDX-License-Identifier: Apache-2.0
// Rounds under a guide with the compiler's baseline and chooses between the instruction sets.
#include "formats/guided_rounding.h"

#include "formats/guided_rounding_kernels.h"

namespace swiftkv {

const GuidedRounding& GuidedRoundingFor([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return Avx512GuidedRounding();
  if (isa >= Isa::kAvx2) return Avx2GuidedRounding();
#endif
  return kGuidedRoundingOf<FourLanes>;
}

const GuidedRounding& HostGuidedRounding() {
  static const GuidedRounding& rounding = GuidedRoundingFor(BestIsa(HostCpu()));
  return rounding;
}

}  // namespace swiftkv
