// SPDX-License-Identifier: Apache-2.0
// Defines the table of weight types that are multiplied as bytes.
#include "model/byte_formats.h"

#include <array>

namespace swiftkv {
namespace {

constexpr std::array<ByteFormat, kNumByteFormats> kFormats = {{
    {ByteFormatId::kQ40, GGML_TYPE_Q4_0, ByteForm::kZero, 3, 32, q4_0::kBytes},
    {ByteFormatId::kQ41, GGML_TYPE_Q4_1, ByteForm::kMins, 0, 32, q4_1::kBytes},
    {ByteFormatId::kQ80, GGML_TYPE_Q8_0, ByteForm::kZero, 7, 32, q8_0::kBytes},
    {ByteFormatId::kQ4K, GGML_TYPE_Q4_K, ByteForm::kMins, 0, 256, q4_k::kBytes},
    {ByteFormatId::kQ5K, GGML_TYPE_Q5_K, ByteForm::kMins, 0, 256, q5_k::kBytes},
    {ByteFormatId::kQ6K, GGML_TYPE_Q6_K, ByteForm::kHalves, 5, 256, q6_k::kBytes},
    {ByteFormatId::kQ50, GGML_TYPE_Q5_0, ByteForm::kZero, 4, 32, q5_0::kBytes},
    {ByteFormatId::kQ51, GGML_TYPE_Q5_1, ByteForm::kMins, 0, 32, q5_1::kBytes},
    {ByteFormatId::kIq4Nl, GGML_TYPE_IQ4_NL, ByteForm::kZero, 7, 32, q4_0::kBytes},
    {ByteFormatId::kIq4Xs, GGML_TYPE_IQ4_XS, ByteForm::kZero, 7, 256, iq4_xs::kBytes},
}};

}  // namespace

std::span<const ByteFormat> AllByteFormats() { return kFormats; }

const ByteFormat* FindByteFormat(ggml_type type) {
  for (const ByteFormat& format : kFormats) {
    if (format.type == type) return &format;
  }
  return nullptr;
}

}  // namespace swiftkv
