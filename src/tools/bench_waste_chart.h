// SPDX-License-Identifier: Apache-2.0
// Draws the figures of `bench waste`: one stacked bar for each allocator and geometry.
#pragma once

#include <string>

#include "tools/bench_waste.h"

namespace swiftkv {

// Returns an SVG document that needs nothing else: no script, no font, no style sheet. Bars are
// shares of allocated slots in the first format of the result; the figures beside them are the
// resident bytes that hold no token, over all formats.
std::string WasteBenchSvg(const WasteBenchResult& result, const BenchWasteOptions& options);

}  // namespace swiftkv
