// SPDX-License-Identifier: Apache-2.0
// Computes guided rounding for the instruction set that the including file is compiled for.
//
// Everything lies in an unnamed namespace, so that files for different sets share no code. Rows are
// the lanes of vectors: the channels of one row wait for one another. Each number is the result of
// the same additions and multiplications, in the same order, in every set and for any number of
// rows: codes and costs are equal bit for bit where nothing is fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/fp8.h"
#include "formats/guided_rounding.h"
#include "formats/row_quantization.h"
#include "formats/slot_transpose.h"

namespace swiftkv {
namespace {

// Numbers side by side. GCC takes no vector size that depends on a template's parameter.
struct EightLanes {
  static constexpr std::size_t kCount = 8;
  using Floats [[gnu::vector_size(32)]] = float;
  using Bits [[gnu::vector_size(32)]] = std::uint32_t;
  using Bytes [[gnu::vector_size(8)]] = std::uint8_t;

  [[gnu::always_inline]] static void StoreCodes(const Bits& codes, std::uint8_t* to) {
    const Bytes bytes = __builtin_convertvector(codes, Bytes);
    std::memcpy(to, &bytes, kCount);
  }
};

struct SixteenLanes {
  static constexpr std::size_t kCount = 16;
  using Floats [[gnu::vector_size(64)]] = float;
  using Bits [[gnu::vector_size(64)]] = std::uint32_t;
  using Bytes [[gnu::vector_size(16)]] = std::uint8_t;

  [[gnu::always_inline]] static void StoreCodes(const Bits& codes, std::uint8_t* to) {
    const Bytes bytes = __builtin_convertvector(codes, Bytes);
    std::memcpy(to, &bytes, kCount);
  }
};

struct FourLanes {
  static constexpr std::size_t kCount = 4;
  using Floats [[gnu::vector_size(16)]] = float;
  using Bits [[gnu::vector_size(16)]] = std::uint32_t;
  using Bytes [[gnu::vector_size(4)]] = std::uint8_t;

  [[gnu::always_inline]] static void StoreCodes(const Bits& codes, std::uint8_t* to) {
    const Bytes bytes = __builtin_convertvector(codes, Bytes);
    std::memcpy(to, &bytes, kCount);
  }
};

struct OneLane {
  static constexpr std::size_t kCount = 1;
  using Floats = float;
  using Bits = std::uint32_t;

  [[gnu::always_inline]] static void StoreCodes(const Bits& codes, std::uint8_t* to) {
    *to = static_cast<std::uint8_t>(codes);
  }
};

// A grid's Round gives the code of each lane and the number that it stands for. Everything is
// passed by reference: vectors that a processor lacks have no place in a call.
struct Int8Grid {
  template <class Floats, class Bits>
  [[gnu::always_inline]] static void Round(const Floats& value, Floats* level, Bits* code) {
    constexpr float kLargest = 127.0F;
    constexpr float kToEven = 0x1.8p23F;  // adding it leaves no bits below the point
    const Floats largest = Floats{} + kLargest;
    const Floats above = value < -largest ? -largest : value;
    const Floats sum = (above > largest ? largest : above) + kToEven;
    *level = sum - kToEven;
    *code = (__builtin_bit_cast(Bits, sum) + 128U) & 0xFFU;
  }
};

struct Int4Grid {
  template <class Floats, class Bits>
  [[gnu::always_inline]] static void Round(const Floats& value, Floats* level, Bits* code) {
    const Bits bits = __builtin_bit_cast(Bits, value);
    const auto magnitude = __builtin_bit_cast(Floats, bits & 0x7FFFFFFFU);
    Floats found = Floats{} + static_cast<float>(kInt4Levels[8]);
    Bits steps = Bits{};
    for (std::size_t k = 0; k < 7; ++k) {
      const Floats next = Floats{} + static_cast<float>(kInt4Levels[9 + k]);
      found = magnitude >= kInt4Borders[k] ? next : found;
      steps = magnitude >= kInt4Borders[k] ? steps + 1U : steps;
    }
    const Bits sign = bits & 0x80000000U;
    *level = __builtin_bit_cast(Floats, __builtin_bit_cast(Bits, found) | sign);
    *code = sign != 0U ? 7U - steps : 8U + steps;
  }
};

template <class Format>
struct Fp8Grid {
  template <class Floats, class Bits>
  [[gnu::always_inline]] static void Round(const Floats& value, Floats* level, Bits* code) {
    constexpr std::uint32_t kBelow = (1U << Format::kShift) - 1U;
    constexpr std::uint32_t kMost = __builtin_bit_cast(std::uint32_t, Format::kMax);
    const Bits all = __builtin_bit_cast(Bits, value);
    const Bits sign = all & 0x80000000U;
    const Bits most = Bits{} + kMost;
    const Bits uncut = all & 0x7FFFFFFFU;
    const Bits bits = uncut > most ? most : uncut;
    const Bits odd = (bits >> Format::kShift) & 1U;
    const Bits normal = (bits + (kBelow >> 1) + odd) & ~kBelow;
    const Bits zero = Bits{};
    const Bits least = zero + Format::kSmallestNormal;
    const Bits small = bits > Format::kHalfSmallest ? least : zero;
    const Bits rounded = bits < least ? small : normal;
    *level = __builtin_bit_cast(Floats, rounded | sign);
    *code = (rounded == zero ? zero : (rounded >> Format::kShift) - Format::kRebias) | (sign >> 24);
  }
};

// Neighbouring channels whose errors reach the channels behind them together.
inline constexpr std::size_t kBlock = 8;

struct Channels {
  std::size_t first;
  std::size_t end;
};

// Lanes of a vector: pairs of a row and a factor, with what they carry from channel to
// channel.
template <class Lanes>
struct LaneGroup {
  alignas(64) float scaled[kMostChannels * Lanes::kCount];   // [dim, Lanes::kCount]
  alignas(64) float targets[kMostChannels * Lanes::kCount];  // with the errors so far made up for
  alignas(64) float errors[kBlock * Lanes::kCount];          // of the block's channels
  alignas(64) float costs[Lanes::kCount];
  alignas(64) std::uint8_t codes[kMostChannels * Lanes::kCount];  // [dim, Lanes::kCount]
};

template <class Lanes>
void Load(const GuidedRows& rows, std::size_t first, LaneGroup<Lanes>* group) {
  for (std::size_t t = 0; t < Lanes::kCount; ++t) {
    const float* const row = rows.rows + (first + t) / rows.tries * rows.row_stride;
    const float factor = rows.factors[first + t];
    for (std::size_t i = 0; i < rows.dim; ++i)
      group->scaled[i * Lanes::kCount + t] = row[i] * factor;
    group->costs[t] = 0;
  }
  std::memcpy(group->targets, group->scaled, rows.dim * Lanes::kCount * sizeof(float));
}

// All lanes are of one row.
template <class Lanes>
void LoadTries(const GuidedRows& rows, std::size_t first, LaneGroup<Lanes>* group) {
  const float* const row = rows.rows + first / rows.tries * rows.row_stride;
  for (std::size_t i = 0; i < rows.dim; ++i) {
    for (std::size_t t = 0; t < Lanes::kCount; ++t) {
      group->scaled[i * Lanes::kCount + t] = row[i] * rows.factors[first + t];
    }
  }
  for (std::size_t t = 0; t < Lanes::kCount; ++t) group->costs[t] = 0;
  std::memcpy(group->targets, group->scaled, rows.dim * Lanes::kCount * sizeof(float));
}

template <class Grid, class Lanes>
[[gnu::always_inline]] inline void RoundChannel(float weight, std::size_t channel,
                                                LaneGroup<Lanes>* group) {
  using Floats = typename Lanes::Floats;
  Floats target;
  Floats scaled;
  Floats cost;
  Floats level;
  typename Lanes::Bits code;
  std::memcpy(&target, group->targets + channel * Lanes::kCount, sizeof(target));
  std::memcpy(&scaled, group->scaled + channel * Lanes::kCount, sizeof(scaled));
  std::memcpy(&cost, group->costs, sizeof(cost));
  Grid::Round(target, &level, &code);
  const Floats cut_off = target - level;
  const Floats error = scaled - level;
  cost += weight * cut_off * cut_off;
  std::memcpy(group->costs, &cost, sizeof(cost));
  std::memcpy(group->errors + channel % kBlock * Lanes::kCount, &error, sizeof(error));
  Lanes::StoreCodes(code, group->codes + channel * Lanes::kCount);
}

// Adds the errors of channels of one block to the targets of others.
template <class Lanes>
[[gnu::always_inline]] inline void SpreadErrors(const RoundingGuide& guide, Channels from,
                                                Channels to, LaneGroup<Lanes>* group) {
  const std::size_t dim = guide.weights.size();
  const float* const spread = guide.spread.data();
  if constexpr (Lanes::kCount == 1) {  // channels are the lanes
    for (std::size_t i = from.first; i < from.end; ++i) {
      const float error = group->errors[i % kBlock];
      for (std::size_t j = to.first; j < to.end; ++j) {
        group->targets[j] += error * spread[i * dim + j];
      }
    }
    return;
  }
  using Floats = typename Lanes::Floats;
  for (std::size_t j = to.first; j < to.end; ++j) {
    Floats target;
    std::memcpy(&target, group->targets + j * Lanes::kCount, sizeof(target));
    for (std::size_t i = from.first; i < from.end; ++i) {
      Floats error;
      std::memcpy(&error, group->errors + i % kBlock * Lanes::kCount, sizeof(error));
      target += error * spread[i * dim + j];
    }
    std::memcpy(group->targets + j * Lanes::kCount, &target, sizeof(target));
  }
}

// Rounds kGroups groups of lanes from `first` on, in turn: while one waits for a channel's error,
// the other goes on.
template <class Grid, class Lanes, std::size_t kGroups>
void RoundGroups(const GuidedRows& rows, std::size_t first) {
  LaneGroup<Lanes> groups[kGroups];
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::size_t lane = first + g * Lanes::kCount;
    if (rows.tries % Lanes::kCount == 0) {
      LoadTries(rows, lane, &groups[g]);
    } else {
      Load(rows, lane, &groups[g]);
    }
  }
  for (std::size_t block = 0; block < rows.dim; block += kBlock) {
    const std::size_t end = block + kBlock;
    for (std::size_t i = block; i < end; ++i) {
      for (LaneGroup<Lanes>& group : groups) {
        RoundChannel<Grid>(rows.guide->weights[i], i, &group);
        SpreadErrors(*rows.guide, {i, i + 1}, {i + 1, end}, &group);
      }
    }
    for (LaneGroup<Lanes>& group : groups) {
      SpreadErrors(*rows.guide, {block, end}, {end, rows.dim}, &group);
    }
  }
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::size_t lane = first + g * Lanes::kCount;
    if (rows.costs != nullptr) {
      std::memcpy(rows.costs + lane, groups[g].costs, sizeof(groups[g].costs));
    }
    if (rows.codes == nullptr) continue;
    for (std::size_t t = 0; t < Lanes::kCount; ++t) {
      std::uint8_t* const codes = rows.codes + (lane + t) * rows.dim;
      for (std::size_t i = 0; i < rows.dim; ++i) codes[i] = groups[g].codes[i * Lanes::kCount + t];
    }
  }
}

template <class Grid, class Lanes>
void RoundAll(const GuidedRows& rows) {
  SKV_CHECK(rows.dim <= kMostChannels && rows.dim % kBlock == 0 &&
            rows.guide->weights.size() == rows.dim);
  SKV_CHECK(rows.tries == 1 || rows.codes == nullptr);
  const std::size_t lanes = rows.count * rows.tries;
  std::size_t done = 0;
  for (; done + 2 * Lanes::kCount <= lanes; done += 2 * Lanes::kCount)
    RoundGroups<Grid, Lanes, 2>(rows, done);
  for (; done + Lanes::kCount <= lanes; done += Lanes::kCount)
    RoundGroups<Grid, Lanes, 1>(rows, done);
  for (; done < lanes; ++done) RoundGroups<Grid, OneLane, 1>(rows, done);
}

template <class Lanes>
constexpr GuidedRounding kGuidedRoundingOf = {RoundAll<Int8Grid, Lanes>, RoundAll<Int4Grid, Lanes>,
                                              RoundAll<Fp8Grid<Fp8E4m3>, Lanes>,
                                              RoundAll<Fp8Grid<Fp8E5m2>, Lanes>};

}  // namespace
}  // namespace swiftkv
