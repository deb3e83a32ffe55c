// SPDX-License-Identifier: Apache-2.0
// Builds token lists, scores and merges from a handful of English pieces.
#include "support/tiny_vocabulary.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/check.h"

namespace swiftkv {
namespace {

constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kByte = 6;

// Each row builds on rows above it, so that every merge has its two halves.
constexpr std::array<std::array<const char*, 2>, 10> kMerges = {{
    {"t", "h"},
    {"th", "e"},
    {"a", "n"},
    {"an", "d"},
    {"i", "n"},
    {"in", "g"},
    {"o", "n"},
    {"e", "r"},
    {"\u0120", "the"},
    {"\u0120", "and"},
}};

void Add(const std::string& text, int32_t type, float score, TinyVocabulary* vocabulary) {
  vocabulary->tokens.push_back(text);
  vocabulary->types.push_back(type);
  vocabulary->scores.push_back(score);
}

// Returns the code point that byte-level BPE writes for `byte`: itself where it prints, else one
// past U+0100.
uint32_t BytePlaceholder(int byte) {
  const auto prints = [](int b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  if (prints(byte)) return static_cast<uint32_t>(byte);
  uint32_t rank = 0;
  for (int b = 0; b < byte; ++b) rank += prints(b) ? 0 : 1;
  return 0x100 + rank;
}

// Encodes a code point below U+0800.
std::string Utf8(uint32_t code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0U | (code_point >> 6U)),
          static_cast<char>(0x80U | (code_point & 0x3FU))};
}

TinyVocabulary MakeBpe() {
  TinyVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    Add(Utf8(BytePlaceholder(byte)), kNormal, 0.0F, &vocabulary);
  }
  for (const auto& [left, right] : kMerges) {
    Add(std::string(left) + right, kNormal, 0.0F, &vocabulary);
    vocabulary.merges.push_back(std::string(left) + " " + right);
  }
  vocabulary.scores.clear();
  return vocabulary;
}

TinyVocabulary MakeSpm() {
  TinyVocabulary vocabulary;
  Add("<unk>", kUnknown, 0.0F, &vocabulary);
  Add("<s>", kControl, 0.0F, &vocabulary);
  Add("</s>", kControl, 0.0F, &vocabulary);
  for (int byte = 0; byte < 256; ++byte) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
    Add(text.data(), kByte, 0.0F, &vocabulary);
  }
  float score = -1.0F;  // longer pieces first: SentencePiece merges the best score
  for (const auto& [left, right] : kMerges) {
    const std::string piece = std::string(left) + right;
    if (piece.rfind("\u0120", 0) == 0) continue;
    Add(piece, kNormal, score, &vocabulary);
    score -= 1.0F;
  }
  Add("\u2581", kNormal, score, &vocabulary);
  for (char c = 'a'; c <= 'z'; ++c) Add(std::string(1, c), kNormal, score - 1.0F, &vocabulary);
  return vocabulary;
}

}  // namespace

int32_t TinyVocabulary::IdOf(const std::string& text) const {
  const auto found = std::find(tokens.begin(), tokens.end(), text);
  SKV_CHECK(found != tokens.end(), "a special token of a tiny model is in its vocabulary");
  return static_cast<int32_t>(found - tokens.begin());
}

TinyVocabulary MakeTinyVocabulary(const TinyTokenizer& tokenizer) {
  SKV_CHECK(tokenizer.kind != TinyVocabularyKind::kNone);
  const bool spm = tokenizer.kind == TinyVocabularyKind::kSpm;
  TinyVocabulary vocabulary = spm ? MakeSpm() : MakeBpe();
  for (const std::string& text : tokenizer.control_tokens) {
    vocabulary.tokens.push_back(text);
    vocabulary.types.push_back(kControl);
    if (spm) vocabulary.scores.push_back(0.0F);
  }
  return vocabulary;
}

}  // namespace swiftkv
