// SPDX-License-Identifier: Apache-2.0
// Holds the one table of named pairs of formats.
#include "formats/page_format_table.h"

#include <array>
#include <string>

#include "formats/bf16_codec.h"
#include "formats/f16_codec.h"
#include "formats/f32_codec.h"
#include "formats/fp8_codecs.h"
#include "formats/int4_codec.h"
#include "formats/int8_codec.h"

namespace swiftkv {
namespace {

// A pair of one format carries that format's name and description.
NamedPageFormat Same(const PageCodec& codec) {
  return {codec.info().name, codec.info().description, {&codec, &codec}};
}

}  // namespace

std::span<const NamedPageFormat> AllPageFormats() {
  static const std::array<NamedPageFormat, 8> formats = {
      Same(kF16Codec),
      Same(kBf16Codec),
      Same(kFp8E4m3Codec),
      Same(kFp8E5m2Codec),
      Same(kInt8Codec),
      {"k8v4",
       "int8 keys and int4 values: any, the smallest that models up to 1B bear",
       {&kInt8Codec, &kInt4Codec}},
      Same(kInt4Codec),
      Same(kF32Codec),
  };
  return formats;
}

Result<PageFormat> FindPageFormat(std::string_view name) {
  std::string names;
  for (const NamedPageFormat& row : AllPageFormats()) {
    if (name == row.name) return row.format;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return Status::InvalidArgument("a page format is one of " + names +
                                 ", not: " + std::string(name));
}

}  // namespace swiftkv
