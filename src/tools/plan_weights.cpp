// SPDX-License-Identifier: Apache-2.0
// Holds the table of weight types.
#include "tools/plan_weights.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "tools/printable_text.h"

namespace swiftkv {
namespace {

struct TypeRow {
  const char* name;
  double bits;
};

// The mixtures (_k_m) average over the tensors of an 8B model, whose types differ; the others are
// the size of their blocks.
constexpr std::array<TypeRow, 14> kTypes = {{{"f32", 32},
                                             {"f16", 16},
                                             {"bf16", 16},
                                             {"fp8", 8},
                                             {"q8_0", 8.5},
                                             {"q6_k", 6.5625},
                                             {"q5_k_m", 5.7},
                                             {"q5_0", 5.5},
                                             {"q4_1", 5},
                                             {"q4_k_m", 4.9},
                                             {"q4_0", 4.5},
                                             {"mxfp4", 4.25},
                                             {"q3_k_m", 4},
                                             {"q2_k", 3.2}}};
constexpr double kMostBits = 64;

}  // namespace

std::string WeightTypeNames() {
  std::string names;
  for (const TypeRow& type : kTypes) names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

Result<WeightType> ParseWeightType(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const TypeRow& type : kTypes) {
    if (lower == type.name) return WeightType{type.name, type.bits};
  }
  double bits = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, bits, std::chars_format::fixed);
  if (parsed.ec == std::errc() && parsed.ptr == end && bits > 0 && bits <= kMostBits) {
    return WeightType{fmt::format("{:g} bits", bits), bits};
  }
  return Status::InvalidArgument(
      fmt::format("--weights-type accepts {} or a number of bits up to {:g}, got \"{}\"",
                  WeightTypeNames(), kMostBits, PrintableExcerpt(text, 60)));
}

}  // namespace swiftkv
