// SPDX-License-Identifier: Apache-2.0
// Holds the one table of page formats.
#include "formats/codec_table.h"

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

constexpr std::array<const PageCodec*, 7> kCodecs = {
    &kF16Codec, &kBf16Codec, &kFp8E4m3Codec, &kFp8E5m2Codec, &kInt8Codec, &kInt4Codec, &kF32Codec,
};

}  // namespace

std::span<const PageCodec* const> AllCodecs() { return kCodecs; }

Result<const PageCodec*> FindCodec(std::string_view name) {
  std::string names;
  for (const PageCodec* codec : kCodecs) {
    if (name == codec->info().name) return codec;
    names += (names.empty() ? "" : ", ") + std::string(codec->info().name);
  }
  return Status::InvalidArgument("a page format is one of " + names +
                                 ", not: " + std::string(name));
}

}  // namespace swiftkv
