// SPDX-License-Identifier: Apache-2.0
// Compares moving slots with what one row after the other decodes to.
#include "formats/slot_moving.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "formats/codec_table.h"
#include "formats/plane_transcoding.h"

namespace swiftkv {
namespace {

constexpr int kDim = 48;

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

std::vector<float> RowAt(const PageCodec& codec, Plane plane, const TestPlane& memory, int slot) {
  std::vector<float> row(kDim);
  codec.Decode(Readable(codec, plane, memory), {slot, 1}, row.data(), row.size());
  return row;
}

// Rows of very unlike sizes: one scale for all would show. Garbage lies in slots from `written` on.
TestPlane RandomPlane(const PageCodec& codec, Plane plane, int written) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> rows(std::size_t{kPageTokens} * kDim);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = normal(random) * static_cast<float>(1 << (i / kDim));
  }
  rows[3] = -0.0F;
  rows[4] = 1e-7F;  // subnormal in f16
  TestPlane memory;
  std::memset(&memory, 0xFF, sizeof(memory));  // NaN in floating formats
  codec.Encode(Writable(codec, plane, &memory), {0, written}, rows.data(), kDim);
  return memory;
}

struct Move {
  std::vector<std::uint8_t> from;
  int first_slot;
};

const std::vector<Move>& Moves() {
  static const std::vector<Move> moves = {
      {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 0},
      {{3}, 15},
      {{0, 2, 9, 11}, 5},
      {{1, 2, 3, 8, 10}, 11},
      {{}, 3},
  };
  return moves;
}

TEST(SlotMovingTest, WithinOneFormatEveryBitStaysAndNeighboursKeepTheirs) {
  for (const PageCodec* codec : AllCodecs()) {
    for (const Plane plane : {Plane::kKey, Plane::kValue}) {
      const TestPlane source = RandomPlane(*codec, plane, kPageTokens);
      for (const Move& move : Moves()) {
        TestPlane target = source;
        MoveSlots(*codec, Readable(*codec, plane, source), move.from, *codec,
                  Writable(*codec, plane, &target), move.first_slot);
        const int end = move.first_slot + static_cast<int>(move.from.size());
        for (int slot = 0; slot < kPageTokens; ++slot) {
          const bool moved = slot >= move.first_slot && slot < end;
          const int from =
              moved ? move.from[static_cast<std::size_t>(slot - move.first_slot)] : slot;
          const std::vector<float> row = RowAt(*codec, plane, target, slot);
          const std::vector<float> expected = RowAt(*codec, plane, source, from);
          ASSERT_EQ(std::memcmp(row.data(), expected.data(), kDim * sizeof(float)), 0)
              << codec->info().name << " slot " << slot;
        }
      }
    }
  }
}

TEST(SlotMovingTest, BetweenFormatsItGivesWhatTranscodingRowByRowGives) {
  for (const PageCodec* from : AllCodecs()) {
    for (const PageCodec* to : AllCodecs()) {
      if (from == to) continue;
      for (const Plane plane : {Plane::kKey, Plane::kValue}) {
        const TestPlane source = RandomPlane(*from, plane, 12);
        for (const Move& move : Moves()) {
          if (!move.from.empty() && move.from.back() >= 12) continue;
          TestPlane target{};
          MoveSlots(*from, Readable(*from, plane, source), move.from, *to,
                    Writable(*to, plane, &target), move.first_slot);
          for (std::size_t i = 0; i < move.from.size(); ++i) {
            TestPlane alone{};
            TranscodePlane(*from, Readable(*from, plane, source), *to, Writable(*to, plane, &alone),
                           {move.from[i], 1});
            ASSERT_EQ(RowAt(*to, plane, target, move.first_slot + static_cast<int>(i)),
                      RowAt(*to, plane, alone, move.from[i]))
                << from->info().name << " to " << to->info().name;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace swiftkv
