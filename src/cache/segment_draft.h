// SPDX-License-Identifier: Apache-2.0
// Turns the order of a compaction into the runs of a segment, without pages yet.
#pragma once

#include <memory>

#include "cache/compressed_segment.h"
#include "swiftkv/compaction.h"

namespace swiftkv {

struct DraftInputs {
  const CacheGeometry* geometry = nullptr;
  std::int64_t length = 0;                 // of the sequence, in tokens
  const CompressedSegment* old = nullptr;  // that it stands on, or null
  const CompactionOrder* order = nullptr;
};

// Returns a segment whose runs have no pools, its frames all Arena::kNoFrame. Planes of fewer than
// 8 bits are replaced as in a sequence's own blocks (cache/format_plan.h). Errors: InvalidArgument
// where the order does not fit the sequence.
Result<std::unique_ptr<CompressedSegment>> DraftSegment(const DraftInputs& inputs);

// Returns the tokens that all heads of layers without a window hold of positions [0, end), of a
// sequence that is dense from `old` on.
std::int64_t HeldTokens(const CacheGeometry& geometry, const CompressedSegment* old,
                        std::int64_t end);

}  // namespace swiftkv
