// SPDX-License-Identifier: Apache-2.0
// Compares moving rows between formats with decoding and encoding them.
#include "formats/plane_transcoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "formats/codec_table.h"

namespace swiftkv {
namespace {

constexpr int kDim = 64;

struct alignas(kPageAlignment) TestPlane {
  std::byte data[kPageTokens * kDim * sizeof(float)];
  std::uint16_t scales[kPageTokens];
};

MutablePlane Writable(const PageCodec& codec, Plane plane, TestPlane* memory) {
  return {plane, kDim, memory->data, codec.info().has_scales ? memory->scales : nullptr};
}
PlaneView Readable(const PageCodec& codec, Plane plane, const TestPlane& memory) {
  return {plane, kDim, memory.data, codec.info().has_scales ? memory.scales : nullptr};
}

TEST(PlaneTranscodingTest, EveryPairOfFormatsGivesWhatDecodingAndEncodingGives) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> rows(std::size_t{kPageTokens} * kDim);
  for (float& value : rows) value = normal(random);
  for (const PageCodec* from : AllCodecs()) {
    for (const PageCodec* to : AllCodecs()) {
      for (const Plane plane : {Plane::kKey, Plane::kValue}) {
        for (const SlotRange slots : {SlotRange{0, 16}, SlotRange{0, 5}, SlotRange{9, 1}}) {
          TestPlane source{};
          TestPlane direct{};
          TestPlane slow{};
          from->Encode(Writable(*from, plane, &source), {0, 16}, rows.data(), kDim);
          TranscodePlane(*from, Readable(*from, plane, source), *to, Writable(*to, plane, &direct),
                         slots);
          std::vector<float> decoded(rows.size());
          from->Decode(Readable(*from, plane, source), slots, decoded.data(), kDim);
          to->Encode(Writable(*to, plane, &slow), slots, decoded.data(), kDim);
          std::vector<float> a(rows.size());
          std::vector<float> b(rows.size());
          to->Decode(Readable(*to, plane, direct), slots, a.data(), kDim);
          to->Decode(Readable(*to, plane, slow), slots, b.data(), kDim);
          // Where rows were rotated back and forth, a code on a border may fall to the other side.
          const bool is_exact = !(from->info().rotated && to->info().rotated);
          double square = 0;
          for (std::size_t i = 0; i < a.size(); ++i) {
            if (is_exact) {
              ASSERT_EQ(a[i], b[i]) << from->info().name << " " << to->info().name;
            }
            square += (a[i] - b[i]) * (a[i] - b[i]);
          }
          EXPECT_LT(std::sqrt(square / (slots.count * kDim)), 5e-3)
              << from->info().name << " " << to->info().name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace swiftkv
