// SPDX-License-Identifier: Apache-2.0
// Looks formats up and checks that they serve every layer's head size.
#include "cache/format_map.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "formats/codec_table.h"

namespace swiftkv {

Result<FormatMap> FormatMap::Uniform(std::span<const LayerShape> layers,
                                     const std::string& key_format,
                                     const std::string& value_format) {
  PageFormat format;
  SKV_ASSIGN_OR_RETURN(format.key, FindCodec(key_format));
  SKV_ASSIGN_OR_RETURN(format.value, FindCodec(value_format));
  for (const LayerShape& layer : layers) {
    for (const PageCodec* codec : {format.key, format.value}) {
      if (codec->ServesHeadDim(layer.head_dim)) continue;
      return Status::InvalidArgument(
          fmt::format("format {} serves head sizes that are multiples of 16, up to 1024, not: {}",
                      codec->info().name, layer.head_dim));
    }
  }
  return FormatMap(std::vector<PageFormat>(layers.size(), format));
}

Quality FormatMap::quality() const {
  Quality worst = Quality::kExact;
  for (const PageFormat& format : layers_) worst = Worse(worst, PageFormatQuality(format));
  return worst;
}

}  // namespace swiftkv
