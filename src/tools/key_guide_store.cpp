// SPDX-License-Identifier: Apache-2.0
// Writes guides as a line of text that names what they are of, then their numbers as f32.
#include "tools/key_guide_store.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/status_macros.h"
#include "engine/key_guides.h"
#include "tools/calibration_text.h"
#include "tools/kept_file.h"
#include "tools/model_path.h"

namespace swiftkv {
namespace {

// Another way of measuring is another version.
constexpr int kVersion = 1;
// No guide has as large a number; keys times more could leave the range of codes as NaN.
constexpr float kMostNumber = 1e6F;

std::string HeaderOf(const std::string& fingerprint) {
  return fmt::format("swiftkv key guides {} model {} text {} tokens {}\n", kVersion, fingerprint,
                     CalibrationTextSha256(), kGuideTokens);
}

// Guides of the shapes of a model, zeros.
KeyGuides EmptyGuides(const LanguageModel& model) {
  KeyGuides guides;
  for (const LayerShape& layer : model.layer_shapes()) {
    const auto dim = static_cast<std::size_t>(layer.head_dim);
    guides.emplace_back(static_cast<std::size_t>(layer.kv_heads),
                        RoundingGuide{std::vector<float>(dim * dim), std::vector<float>(dim)});
  }
  return guides;
}

// Calls part(floats) for every array of numbers, in the order of the file.
template <class Guides, class Part>
void ForNumbers(Guides* guides, const Part& part) {
  for (auto& layer : *guides) {
    for (auto& guide : layer) {
      part(guide.spread);
      part(guide.weights);
    }
  }
}

std::optional<KeyGuides> Parse(const std::string& text, const std::string& header,
                               const LanguageModel& model) {
  if (text.compare(0, header.size(), header) != 0) return std::nullopt;
  KeyGuides guides = EmptyGuides(model);
  std::size_t at = header.size();
  bool whole = true;
  ForNumbers(&guides, [&](std::vector<float>& numbers) {
    const std::size_t bytes = numbers.size() * sizeof(float);
    whole = whole && text.size() - at >= bytes;
    if (!whole) return;
    std::memcpy(numbers.data(), text.data() + at, bytes);
    at += bytes;
    for (const float number : numbers) whole = whole && std::fabs(number) <= kMostNumber;
  });
  if (!whole || at != text.size()) return std::nullopt;
  return guides;
}

std::string Serialize(const KeyGuides& guides, const std::string& header) {
  std::string text = header;
  ForNumbers(&guides, [&text](const std::vector<float>& numbers) {
    text.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  });
  return text;
}

std::size_t FileBytes(const LanguageModel& model, const std::string& header) {
  std::size_t bytes = header.size();
  for (const LayerShape& layer : model.layer_shapes()) {
    const auto dim = static_cast<std::size_t>(layer.head_dim);
    bytes += static_cast<std::size_t>(layer.kv_heads) * dim * (dim + 1) * sizeof(float);
  }
  return bytes;
}

}  // namespace

std::string KeyGuideStore::PathOf(const std::string& fingerprint) const {
  return folder_ + "/" + fingerprint + ".guides";
}

Result<std::shared_ptr<const KeyGuides>> KeyGuideStore::Guides(
    LanguageModel* model, const Vocabulary& vocabulary, std::uint64_t kv_bytes,
    const std::atomic<bool>* cancel) const {
  const std::string header = HeaderOf(model->fingerprint());
  const std::string path = PathOf(model->fingerprint());
  if (!folder_.empty()) {
    const auto text = ReadFileUpTo(path, FileBytes(*model, header) + 1);
    std::optional<KeyGuides> kept = text ? Parse(*text, header, *model) : std::nullopt;
    if (kept)
      return std::shared_ptr<const KeyGuides>(std::make_shared<KeyGuides>(std::move(*kept)));
  }
  SKV_ASSIGN_OR_RETURN(std::shared_ptr<const KeyGuides> guides,
                       GuidesFromCalibrationText(model, vocabulary, kv_bytes, cancel));
  const int wanted = std::min(kGuideTokens, model->context());
  if (folder_.empty() || GuideTokensWithin(*model, kv_bytes) < wanted) return guides;
  const Status written = ReplaceFile(path, Serialize(*guides, header));
  if (!written.ok()) spdlog::warn("the guides of keys {}", written.message());
  return guides;
}

Result<std::shared_ptr<const KeyGuides>> GuidesFromCalibrationText(
    LanguageModel* model, const Vocabulary& vocabulary, std::uint64_t kv_bytes,
    const std::atomic<bool>* cancel) {
  SKV_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                       vocabulary.EncodePrompt(std::string(CalibrationText())));
  return MeasureKeyGuides(model, tokens, kv_bytes, cancel);
}

KeyGuideStore ProcessKeyGuideStore() {
  const std::string cache = CacheDirectory(ProcessEnvironment());
  return KeyGuideStore(cache.empty() ? "" : cache + "/guides");
}

}  // namespace swiftkv
