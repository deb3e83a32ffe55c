// SPDX-License-Identifier: Apache-2.0
// Says in which format the pages of every layer are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "swiftkv/kv_cache.h"
#include "swiftkv/page_layout.h"

namespace swiftkv {

class FormatMap {
 public:
  FormatMap() = default;
  explicit FormatMap(std::vector<PageFormat> layers) : layers_(std::move(layers)) {}

  // Gives every layer the same format. Errors: InvalidArgument for an unknown format or for a head
  // size that it does not serve.
  static Result<FormatMap> Uniform(std::span<const LayerShape> layers,
                                   const std::string& key_format, const std::string& value_format);

  const PageFormat& layer(int index) const { return layers_[static_cast<std::size_t>(index)]; }

  // Returns the worst grade of all layers.
  Quality quality() const;

  std::uint64_t heap_bytes() const { return layers_.capacity() * sizeof(PageFormat); }

  friend bool operator==(const FormatMap&, const FormatMap&) = default;

 private:
  std::vector<PageFormat> layers_;  // at least one
};

}  // namespace swiftkv
