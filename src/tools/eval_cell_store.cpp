// SPDX-License-Identifier: Apache-2.0
// Reads and writes figures of cells as JSON.
#include "tools/eval_cell_store.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/fingerprint.h"
#include "tools/kept_file.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = 64U << 20;  // far more than the longest document gives
constexpr double kMostCount = 1e15;

// JSON has no infinity: such a figure is null.
std::optional<double> Figure(const Json& value) {
  if (value.is_null()) return std::numeric_limits<double>::infinity();
  if (!value.is_number()) return std::nullopt;
  const double figure = value.get<double>();
  return figure >= 0 ? std::optional(figure) : std::nullopt;
}

std::optional<double> Count(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double count = found->get<double>();
  return count >= 0 && count <= kMostCount ? std::optional(count) : std::nullopt;
}

Json ToJson(const std::vector<ScoredToken>& tokens) {
  Json kld = Json::array();
  Json nll = Json::array();
  std::string marks;  // one character a token: bit 0 the same best token, bit 1 a hit
  for (const ScoredToken& token : tokens) {
    kld.push_back(token.kld);
    nll.push_back(token.nll);
    marks += static_cast<char>('0' + (token.same_top1 ? 1 : 0) + (token.hit ? 2 : 0));
  }
  return {{"kld", kld}, {"nll", nll}, {"marks", marks}};
}

std::optional<std::vector<ScoredToken>> TokensFrom(const Json& object, std::size_t count) {
  if (!object.is_object() || !object.contains("kld") || !object.contains("nll") ||
      !object.contains("marks")) {
    return std::nullopt;
  }
  const Json& kld = object["kld"];
  const Json& nll = object["nll"];
  if (!kld.is_array() || !nll.is_array() || !object["marks"].is_string()) return std::nullopt;
  const auto marks = object["marks"].get<std::string>();
  if (kld.size() != count || nll.size() != count || marks.size() != count) return std::nullopt;
  std::vector<ScoredToken> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<double> of_kld = Figure(kld[i]);
    const std::optional<double> of_nll = Figure(nll[i]);
    const int mark = marks[i] - '0';
    if (!of_kld || !of_nll || mark < 0 || mark > 3) return std::nullopt;
    tokens[i] = {
        .kld = *of_kld, .nll = *of_nll, .same_top1 = (mark & 1) != 0, .hit = (mark & 2) != 0};
  }
  return tokens;
}

std::optional<CellScore> ScoreFrom(const Json& object,
                                   const std::vector<std::size_t>& scored_tokens) {
  const std::optional<double> bytes = Count(object, "bytes");
  const std::optional<double> bits = Count(object, "bits_per_value");
  const std::optional<double> kept = Count(object, "kept_tokens");
  const std::optional<double> whole = Count(object, "whole_tokens");
  const auto continuations = object.find("continuations");
  if (!bytes || !bits || !kept || !whole || continuations == object.end() ||
      !continuations->is_array() || continuations->size() != scored_tokens.size()) {
    return std::nullopt;
  }
  CellScore score;
  score.bytes = static_cast<std::uint64_t>(*bytes);
  score.bits_per_value = *bits;
  score.kept_tokens = static_cast<std::int64_t>(*kept);
  score.whole_tokens = static_cast<std::int64_t>(*whole);
  for (std::size_t i = 0; i < scored_tokens.size(); ++i) {
    auto tokens = TokensFrom((*continuations)[i], scored_tokens[i]);
    if (!tokens) return std::nullopt;
    score.continuations.push_back(std::move(*tokens));
  }
  return score;
}

}  // namespace

std::string EvalCellStore::PathOf(const std::string& key) const {
  return folder_ + "/" + TextFingerprint(key) + ".json";
}

std::optional<CellScore> EvalCellStore::Load(const std::string& key,
                                             const std::vector<std::size_t>& scored_tokens) const {
  if (folder_.empty()) return std::nullopt;
  const std::optional<std::string> text = ReadFileUpTo(PathOf(key), kMostBytes);
  if (!text) return std::nullopt;
  const Json object = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("version") || !object.contains("key") ||
      object["version"] != kEvalCellVersion || object["key"] != key) {
    return std::nullopt;
  }
  return ScoreFrom(object, scored_tokens);
}

Status EvalCellStore::Save(const std::string& key, const CellScore& score) const {
  if (folder_.empty()) return Status::Ok();
  Json continuations = Json::array();
  for (const std::vector<ScoredToken>& tokens : score.continuations) {
    continuations.push_back(ToJson(tokens));
  }
  const Json object = {{"version", kEvalCellVersion},
                       {"key", key},
                       {"bytes", score.bytes},
                       {"bits_per_value", score.bits_per_value},
                       {"kept_tokens", score.kept_tokens},
                       {"whole_tokens", score.whole_tokens},
                       {"continuations", continuations}};
  const Status kept = ReplaceFile(PathOf(key), object.dump() + "\n");
  return kept.ok() ? kept : Status(kept.code(), "a measured cell " + kept.message());
}

}  // namespace swiftkv
