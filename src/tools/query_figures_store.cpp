// SPDX-License-Identifier: Apache-2.0
// Writes statistics as a line of text, their numbers as f32, and a digest of both.
#include "tools/query_figures_store.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status_macros.h"
#include "model/fingerprint.h"
#include "tools/kept_file.h"
#include "tools/model_path.h"

namespace swiftkv {
namespace {

constexpr std::size_t kDigestBytes = 64;  // of SHA-256 in hex
// No query is nearly as long; scores of such figures could leave the range of f32.
constexpr float kMostNumber = 1e9F;
// A covariance may leave its bounds by rounding, no further.
constexpr double kSlack = 1.001;

std::string HeaderOf(const std::string& model, const DecoderSpec& spec) {
  return fmt::format("swiftkv query statistics {} model {} layers {} head_dim {}\n",
                     kQueryFiguresVersion, model, spec.layers.size(), spec.head_dim);
}

struct LayerSizes {
  std::size_t heads = 0;  // 0: a layer with a window, which has no figures
  std::size_t dim = 0;

  std::size_t floats() const { return heads * (dim + dim * (dim + 1) / 2); }
};

std::vector<LayerSizes> SizesOf(const DecoderSpec& spec) {
  std::vector<LayerSizes> sizes;
  for (const DecoderLayerSpec& layer : spec.layers) {
    sizes.push_back({layer.window > 0 ? 0 : static_cast<std::size_t>(layer.num_heads),
                     static_cast<std::size_t>(spec.head_dim)});
  }
  return sizes;
}

std::size_t FileBytes(const DecoderSpec& spec, const std::string& header) {
  std::size_t bytes = header.size() + kDigestBytes;
  for (const LayerSizes& layer : SizesOf(spec)) bytes += layer.floats() * sizeof(float);
  return bytes;
}

void Append(std::span<const float> numbers, std::string* text) {
  text->append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
}

// Takes `count` floats off the front of `bytes`.
std::vector<float> Take(std::size_t count, std::string_view* bytes) {
  std::vector<float> numbers(count);
  std::memcpy(numbers.data(), bytes->data(), count * sizeof(float));
  bytes->remove_prefix(count * sizeof(float));
  return numbers;
}

// Lower triangle of one head into a full matrix. False where it is no covariance: a number that is
// none, a negative variance, or more in common than two channels can have.
bool Unfold(std::span<const float> triangle, std::size_t dim, std::span<float> matrix) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < dim; ++i) {
    for (std::size_t j = 0; j <= i; ++j, ++at) {
      const float value = triangle[at];
      if (!(std::fabs(value) <= kMostNumber)) return false;
      matrix[i * dim + j] = value;
      matrix[j * dim + i] = value;
    }
    if (matrix[i * dim + i] < 0) return false;
  }
  for (std::size_t i = 0; i < dim; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double most = std::sqrt(static_cast<double>(matrix[i * dim + i]) *
                                    static_cast<double>(matrix[j * dim + j]));
      if (std::fabs(static_cast<double>(matrix[i * dim + j])) > most * kSlack + 1e-6) return false;
    }
  }
  return true;
}

std::string Serialize(const DecoderSpec& spec, const std::string& header,
                      const ModelQueryFigures& figures) {
  std::string text = header;
  const std::vector<LayerSizes> sizes = SizesOf(spec);
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    const std::size_t dim = sizes[l].dim;
    if (sizes[l].heads == 0) continue;
    Append(figures.layers[l].mean, &text);
    for (std::size_t row = 0; row < sizes[l].heads * dim; ++row) {
      Append(std::span(figures.layers[l].covariance).subspan(row * dim, row % dim + 1), &text);
    }
  }
  return text + TextFingerprint(text);
}

// Returns nothing where a number cannot be one of such figures. `bytes` has the right length.
std::optional<ModelQueryFigures> Parse(const DecoderSpec& spec, std::string_view bytes) {
  ModelQueryFigures figures;
  for (const LayerSizes& size : SizesOf(spec)) {
    LayerQueryFigures& layer = figures.layers.emplace_back();
    if (size.heads == 0) continue;
    layer.mean = Take(size.heads * size.dim, &bytes);
    for (const float value : layer.mean) {
      if (!(std::fabs(value) <= kMostNumber)) return std::nullopt;
    }
    const std::size_t square = size.dim * size.dim;
    layer.covariance.resize(size.heads * square);
    for (std::size_t head = 0; head < size.heads; ++head) {
      const std::vector<float> triangle = Take(size.dim * (size.dim + 1) / 2, &bytes);
      if (!Unfold(triangle, size.dim, std::span(layer.covariance).subspan(head * square, square))) {
        return std::nullopt;
      }
    }
  }
  return figures;
}

}  // namespace

std::string QueryFiguresStore::PathOf(const std::string& model) const {
  return folder_ + "/" + model + ".queries";
}

Result<ModelQueryFigures> QueryFiguresStore::Load(const std::string& model,
                                                  const DecoderSpec& spec) const {
  const std::string header = HeaderOf(model, spec);
  const std::size_t size = FileBytes(spec, header);
  const std::string path = PathOf(model);
  const std::optional<std::string> text = ReadFileUpTo(path, size + 1);
  if (folder_.empty() || !text) {
    return Status::NotFound(
        "no query statistics were measured of the model; eval --query-stats "
        "does, of: " +
        model);
  }
  const auto unusable = [&path](const char* reason) {
    return Status::DataLoss(fmt::format("query statistics are left out, {}: {}", reason, path));
  };
  if (text->compare(0, header.size(), header) != 0) {
    return unusable("they are another model's or another version's");
  }
  if (text->size() != size) return unusable("the file is damaged");
  const std::string body = text->substr(0, size - kDigestBytes);
  const std::string digest = TextFingerprint(body);
  if (text->compare(body.size(), kDigestBytes, digest) != 0) {
    return unusable("the file is damaged");
  }
  std::optional<ModelQueryFigures> figures =
      Parse(spec, std::string_view(body).substr(header.size()));
  if (!figures) return unusable("they are no statistics of queries");
  figures->fingerprint = digest;
  return std::move(*figures);
}

Result<ModelQueryFigures> QueryFiguresStore::Save(const std::string& model, const DecoderSpec& spec,
                                                  ModelQueryFigures figures) const {
  const std::string text = Serialize(spec, HeaderOf(model, spec), figures);
  figures.fingerprint = text.substr(text.size() - kDigestBytes);
  if (folder_.empty()) return figures;
  const Status kept = ReplaceFile(PathOf(model), text);
  if (!kept.ok()) return Status(kept.code(), "the query statistics " + kept.message());
  return figures;
}

QueryFiguresStore ProcessQueryFiguresStore() {
  const std::string cache = CacheDirectory(ProcessEnvironment());
  return QueryFiguresStore(cache.empty() ? "" : cache + "/calibration");
}

}  // namespace swiftkv
