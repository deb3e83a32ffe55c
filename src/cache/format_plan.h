// SPDX-License-Identifier: Apache-2.0
// Says in which formats the pages of a sequence are while they are young, and once they are old.
//
// Planes of fewer than 8 bits come with guard rails: block 0 (attention's sinks), the newest 128
// tokens, and the first and last two layers stay at 8 bits. So such a format is two maps. Blocks
// are written in the open one, where int8 stands in for every such plane, and are re-encoded into
// the sealed one when they have become old. For all other formats the two are equal, and for layers
// whose window reaches no further than the newest tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "cache/format_map.h"

namespace swiftkv {

struct FormatPlan {
  PageFormat asked;
  FormatMap open;
  FormatMap sealed;

  // Errors: those of FormatMap::Uniform.
  static Result<FormatPlan> For(std::span<const LayerShape> layers, const std::string& key_format,
                                const std::string& value_format);

  // Whether old blocks are re-encoded: false for formats of 8 bits and more, and for models of so
  // few layers that the guard rails keep all of them.
  bool seals() const { return !(open == sealed); }

  // Returns the name of the format that was asked for.
  std::string name() const { return PageFormatName(asked); }

  // Returns the worst grade of what is really stored.
  Quality quality() const { return Worse(open.quality(), sealed.quality()); }
};

// The newest tokens of a sequence, which are never sealed.
inline constexpr std::int64_t kOpenTokens = 128;

// Returns the end of the blocks that a sequence of `length` tokens has sealed; they begin at 1.
constexpr std::int64_t SealedEnd(std::int64_t length) {
  return std::max<std::int64_t>(1, (length - kOpenTokens) / kPageTokens);
}

}  // namespace swiftkv
