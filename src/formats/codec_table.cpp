// SPDX-License-Identifier: Apache-2.0
// Holds the one table of page formats.
#include "formats/codec_table.h"

#include <array>
#include <string>

#include "formats/bf16_codec.h"
#include "formats/f16_codec.h"
#include "formats/f32_codec.h"

namespace swiftkv {
namespace {

constexpr std::array<const PageCodec*, 3> kCodecs = {
    &kF16Codec,
    &kBf16Codec,
    &kF32Codec,
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
