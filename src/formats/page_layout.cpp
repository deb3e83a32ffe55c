// SPDX-License-Identifier: Apache-2.0
// Computes where scales and planes lie within a page (docs/page_format.md, "Page").
#include "swiftkv/page_layout.h"

#include "formats/page_format_table.h"

namespace swiftkv {
namespace {

constexpr std::uint32_t kScalesBytes = 64;  // [16] f16 of K, [16] f16 of V

// Returns the scales of a plane, or null where its format has none.
template <typename Byte, typename Scale>
Scale* ScalesOf(const PageCodec* codec, Plane plane, Byte* page) {
  if (!codec->info().has_scales) return nullptr;
  return reinterpret_cast<Scale*>(page) + (plane == Plane::kKey ? 0 : kPageTokens);
}

}  // namespace

std::string PageFormatName(const PageFormat& format) {
  for (const NamedPageFormat& row : AllPageFormats()) {
    if (row.format == format) return row.name;
  }
  std::string name = format.key->info().name;
  if (format.value != format.key) name += std::string("/") + format.value->info().name;
  return name;
}

Quality PageFormatQuality(const PageFormat& format) {
  return Worse(format.key->info().quality, format.value->info().quality);
}

PageLayout PageLayout::For(const PageFormat& format, int head_dim) {
  PageLayout layout;
  layout.has_scales = format.key->info().has_scales || format.value->info().has_scales;
  layout.key_offset = layout.has_scales ? kScalesBytes : 0;
  layout.value_offset =
      layout.key_offset + static_cast<std::uint32_t>(format.key->PlaneBytes(head_dim));
  layout.bytes =
      layout.value_offset + static_cast<std::uint32_t>(format.value->PlaneBytes(head_dim));
  return layout;
}

PlaneView KeyPlane(const PageFormat& format, const PageLayout& layout, int head_dim,
                   const std::byte* page) {
  return {Plane::kKey, head_dim, page + layout.key_offset,
          ScalesOf<const std::byte, const std::uint16_t>(format.key, Plane::kKey, page)};
}

PlaneView ValuePlane(const PageFormat& format, const PageLayout& layout, int head_dim,
                     const std::byte* page) {
  return {Plane::kValue, head_dim, page + layout.value_offset,
          ScalesOf<const std::byte, const std::uint16_t>(format.value, Plane::kValue, page)};
}

MutablePlane MutableKeyPlane(const PageFormat& format, const PageLayout& layout, int head_dim,
                             std::byte* page) {
  return {Plane::kKey, head_dim, page + layout.key_offset,
          ScalesOf<std::byte, std::uint16_t>(format.key, Plane::kKey, page)};
}

MutablePlane MutableValuePlane(const PageFormat& format, const PageLayout& layout, int head_dim,
                               std::byte* page) {
  return {Plane::kValue, head_dim, page + layout.value_offset,
          ScalesOf<std::byte, std::uint16_t>(format.value, Plane::kValue, page)};
}

}  // namespace swiftkv
