// SPDX-License-Identifier: Apache-2.0
// Renders one exchange and looks behind the reply.
#include "model/turn_end.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "model/jinja_engine.h"

namespace swiftkv {
namespace {

constexpr std::string_view kReply = "swiftkv reply stand in";

bool IsWhiteSpace(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
}

}  // namespace

TokenId FindTurnEnd(const Vocabulary& vocabulary) {
  const std::string& source = vocabulary.chat_template_source();
  if (source.empty()) return kNoToken;
  const auto engine = JinjaEngine::Parse(source, vocabulary.TokenToPiece(vocabulary.bos(), true),
                                         vocabulary.TokenToPiece(vocabulary.eos(), true));
  if (!engine.ok()) return kNoToken;
  const auto parts = (*engine)->Run({{"user", "question"}, {"assistant", std::string(kReply)}},
                                    {.add_generation_prompt = false});
  if (!parts.ok()) return kNoToken;
  std::string text;
  for (const TextPart& part : *parts) text += part.text;
  const std::size_t at = text.rfind(kReply);
  if (at == std::string::npos) return kNoToken;
  const TextPart behind{text.substr(at + kReply.size()), /*trusted=*/true};
  const auto tokens = vocabulary.Encode({&behind, 1}, {.continues = true, .forbidden = {}});
  if (!tokens.ok()) return kNoToken;
  const std::vector<TokenId> markers = vocabulary.MarkersWithin(source);
  for (const TokenId token : *tokens) {
    if (vocabulary.IsControl(token)) return token;
    if (std::binary_search(markers.begin(), markers.end(), token)) return token;
    if (!IsWhiteSpace(vocabulary.TokenToPiece(token))) return kNoToken;
  }
  return kNoToken;
}

}  // namespace swiftkv
