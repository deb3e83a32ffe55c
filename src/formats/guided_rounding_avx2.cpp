// SPDX-License-Identifier: Apache-2.0
// Rounds under a guide eight rows at a time with AVX2.
#include "formats/guided_rounding_kernels.h"

namespace swiftkv {

const GuidedRounding& Avx2GuidedRounding() { return kGuidedRoundingOf<EightLanes>; }

}  // namespace swiftkv
