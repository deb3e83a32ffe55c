// SPDX-License-Identifier: Apache-2.0
// Matches special tokens one by one, longest text first, against the text that is still unclaimed.
#include "model/special_tokens.h"

#include <algorithm>
#include <cctype>

#include "llama.h"

namespace swiftkv {
namespace {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// A marker has punctuation: words that a model happens to define as tokens of their own are no
// markers.
bool LooksLikeMarker(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return std::ispunct(static_cast<unsigned char>(c)) != 0; });
}

// Returns the bytes of the first character of well-formed, non-empty `text`.
std::size_t FirstCharacterBytes(std::string_view text) {
  std::size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) ++bytes;
  return bytes;
}

bool Contains(std::span<const TokenId> tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

bool LiesWithin(std::size_t begin, std::size_t end, std::span<const TrustedRange> ranges) {
  // The last range that begins at or before `begin`.
  auto after = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                [](std::size_t at, const TrustedRange& r) { return at < r.begin; });
  return after != ranges.begin() && end <= std::prev(after)->end;
}

}  // namespace

SpecialTokens::SpecialTokens(const llama_vocab* vocabulary) {
  const TokenId size = llama_vocab_n_tokens(vocabulary);
  for (TokenId token = 0; token < size; ++token) {
    const int attributes = llama_vocab_get_attr(vocabulary, token);
    const bool control = (attributes & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0;
    if (!control && (attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) == 0) continue;
    entries_.push_back({token, llama_vocab_get_text(vocabulary, token), control,
                        (attributes & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
                        (attributes & LLAMA_TOKEN_ATTR_RSTRIP) != 0});
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.text.empty(); });
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.text.size() > b.text.size(); });
}

std::vector<PromptFragment> SpecialTokens::Split(std::string_view prompt,
                                                 std::span<const TrustedRange> trusted,
                                                 std::span<const TokenId> forbidden) const {
  std::vector<PromptFragment> fragments;
  if (!prompt.empty()) fragments.push_back({kNoToken, 0, prompt.size(), {}});
  std::vector<std::size_t> cuts;
  for (const Entry& entry : entries_) {
    // Most of hundreds of special tokens do not occur at all.
    if (prompt.find(entry.text) == std::string_view::npos) continue;
    const bool needs_trust = entry.control || Contains(forbidden, entry.token);
    std::vector<PromptFragment> next;
    for (PromptFragment fragment : fragments) {
      std::size_t search = fragment.begin;
      while (fragment.token == kNoToken) {
        const std::size_t at = prompt.substr(0, fragment.end).find(entry.text, search);
        if (at == std::string_view::npos) break;
        const std::size_t end = at + entry.text.size();
        if (needs_trust && !LiesWithin(at, end, trusted)) {
          // A control token's text is left alone; a user-defined one's would match, so it is cut.
          if (!entry.control) cuts.push_back(at + FirstCharacterBytes(entry.text));
          search = at + 1;
          continue;
        }
        std::size_t left_end = at;
        while (entry.strips_left && left_end > fragment.begin && IsSpace(prompt[left_end - 1])) {
          --left_end;
        }
        if (left_end > fragment.begin) next.push_back({kNoToken, fragment.begin, left_end, {}});
        next.push_back({entry.token, at, end, {}});
        fragment.begin = end;
        while (entry.strips_right && fragment.begin < fragment.end &&
               IsSpace(prompt[fragment.begin])) {
          ++fragment.begin;
        }
        search = fragment.begin;
      }
      if (fragment.begin < fragment.end) next.push_back(fragment);
    }
    fragments = std::move(next);
  }
  std::sort(cuts.begin(), cuts.end());
  for (PromptFragment& fragment : fragments) {
    if (fragment.token != kNoToken) continue;
    const auto first = std::upper_bound(cuts.begin(), cuts.end(), fragment.begin);
    const auto last = std::lower_bound(first, cuts.end(), fragment.end);
    fragment.cuts.assign(first, last);
  }
  return fragments;
}

std::vector<std::size_t> SpecialTokens::BreakingPoints(std::string_view text,
                                                       std::span<const TokenId> forbidden) const {
  std::vector<std::size_t> points;
  for (const Entry& entry : entries_) {
    if (!entry.control && !Contains(forbidden, entry.token)) continue;
    std::size_t at = text.find(entry.text);
    for (; at != std::string_view::npos; at = text.find(entry.text, at + 1)) {
      points.push_back(at + FirstCharacterBytes(entry.text));
    }
  }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

TokenId SpecialTokens::Find(std::string_view text) const {
  for (const Entry& entry : entries_) {
    if (entry.text == text) return entry.token;
  }
  return kNoToken;
}

std::vector<TokenId> SpecialTokens::MarkersWithin(std::string_view text) const {
  std::vector<TokenId> found;
  for (const Entry& entry : entries_) {
    if (entry.control || !LooksLikeMarker(entry.text)) continue;
    std::string_view core = entry.text;
    while (IsSpace(core.front())) core.remove_prefix(1);
    while (IsSpace(core.back())) core.remove_suffix(1);
    if (text.find(core) != std::string_view::npos) found.push_back(entry.token);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace swiftkv
