// SPDX-License-Identifier: Apache-2.0
// Rounds under a guide sixteen rows at a time with AVX-512.
#include "formats/guided_rounding_kernels.h"

namespace swiftkv {

const GuidedRounding& Avx512GuidedRounding() { return kGuidedRoundingOf<SixteenLanes>; }

}  // namespace swiftkv
