// SPDX-License-Identifier: Apache-2.0
// Reads how kept tokens are stored: as the sequence is, or in part in a smaller format. Layer:
// engine.
//
// Pure. docs/policies.md says what shares mean.
#pragma once

#include <optional>
#include <string>

#include "swiftkv/page_layout.h"
#include "swiftkv/status.h"

namespace swiftkv {

// The text by which all that is kept stays in the sequence's own format.
inline constexpr const char* kKeptAsStored = "same";

// A format, and the part of the kept tokens that goes into it: those that matter least.
struct SmallerFormat {
  PageFormat format;
  double share = 0;  // (0, 1]
};

// Reads "same", which gives nothing, or "FORMAT=SHARE". Errors: InvalidArgument.
Result<std::optional<SmallerFormat>> ParseKeptAs(const std::string& text);

// Whether a page takes less in `smaller` than in `format`.
bool IsSmaller(const PageFormat& smaller, const PageFormat& format);

// Returns the one way to write it: "int8=0.5".
std::string CanonicalKeptAs(const SmallerFormat& smaller);

}  // namespace swiftkv
