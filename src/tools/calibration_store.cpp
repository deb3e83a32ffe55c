// SPDX-License-Identifier: Apache-2.0
// Reads and writes calibration files; JSON, for people too.
#include "tools/calibration_store.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/status_macros.h"
#include "tools/calibration_text.h"
#include "tools/kept_file.h"
#include "tools/model_path.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = 1 << 20;  // no calibration is nearly as long

// Reads a figure that a measurement can have had: at least 0; null stands for infinity.
std::optional<double> Figure(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_null()) return std::numeric_limits<double>::infinity();
  if (!found->is_number()) return std::nullopt;
  const double figure = found->get<double>();
  return figure >= 0 ? std::optional(figure) : std::nullopt;
}

std::optional<FormatQuality> RowFrom(const Json& object) {
  if (!object.is_object() || !object.contains("format") || !object["format"].is_string()) {
    return std::nullopt;
  }
  const std::optional<double> mean_kld = Figure(object, "mean_kld");
  const std::optional<double> p99_kld = Figure(object, "p99_kld");
  const std::optional<double> same_top1 = Figure(object, "same_top1");
  const std::optional<double> ppl = Figure(object, "ppl");
  const std::optional<double> bits = Figure(object, "bits_per_value");
  const std::optional<double> bytes = Figure(object, "bytes");
  const std::optional<double> positions = Figure(object, "positions");
  if (!mean_kld || !p99_kld || !same_top1 || !ppl || !bits || !bytes || !positions) {
    return std::nullopt;
  }
  constexpr double kMostCount = 1e18;
  if (*bytes > kMostCount || *positions > kMostCount) return std::nullopt;
  FormatQuality row;
  row.format = object["format"].get<std::string>();
  row.loss = {.positions = static_cast<std::int64_t>(*positions),
              .mean_kld = *mean_kld,
              .p99_kld = *p99_kld,
              .same_top1 = *same_top1,
              .ppl = *ppl};
  row.bits_per_value = *bits;
  row.bytes = static_cast<std::uint64_t>(*bytes);
  return row;
}

Json RowToJson(const FormatQuality& row) {
  return {{"format", row.format},
          {"bits_per_value", row.bits_per_value},
          {"bytes", row.bytes},
          {"positions", row.loss.positions},
          {"mean_kld", row.loss.mean_kld},
          {"p99_kld", row.loss.p99_kld},
          {"same_top1", row.loss.same_top1},
          {"ppl", row.loss.ppl}};
}

Json ToJson(const std::string& fingerprint, const Calibration& calibration) {
  Json rows = Json::array();
  for (const FormatQuality& row : calibration.rows) rows.push_back(RowToJson(row));
  return {{"version", kCalibrationVersion},
          {"model", fingerprint},
          {"text_sha256", calibration.text_sha256},
          {"context", calibration.context},
          {"chunk", calibration.chunk},
          {"weights", MeasuredWeightsName(calibration.weights)},
          {"noise_floor", calibration.noise_floor},
          {"rows", rows}};
}

bool IsNumber(const Json& object, const char* key, double least) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() && found->get<double>() >= least &&
         found->get<double>() <= std::numeric_limits<int>::max();
}

bool IsText(const Json& object, const char* key, const std::string& text) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() && found->get<std::string>() == text;
}

// Returns nothing where a field is missing or odd.
std::optional<Calibration> FromJson(const Json& object) {
  const bool is_f16 = IsText(object, "weights", "f16");
  const std::optional<double> noise_floor = Figure(object, "noise_floor");
  if (!IsNumber(object, "context", 1) || !IsNumber(object, "chunk", 1) || !noise_floor ||
      (!is_f16 && !IsText(object, "weights", "asis")) || !object.contains("rows") ||
      !object["rows"].is_array()) {
    return std::nullopt;
  }
  Calibration calibration;
  calibration.text_sha256 = CalibrationTextSha256();
  calibration.context = object["context"].get<int>();
  calibration.chunk = object["chunk"].get<int>();
  calibration.weights = is_f16 ? MeasuredWeights::kF16 : MeasuredWeights::kAsIs;
  calibration.noise_floor = *noise_floor;
  for (const Json& entry : object["rows"]) {
    std::optional<FormatQuality> row = RowFrom(entry);
    if (!row) return std::nullopt;
    calibration.rows.push_back(std::move(*row));
  }
  return calibration;
}

bool MeasuredAlike(const Calibration& a, const Calibration& b) {
  return a.text_sha256 == b.text_sha256 && a.context == b.context && a.chunk == b.chunk &&
         a.weights == b.weights;
}

}  // namespace

std::string CalibrationStore::PathOf(const std::string& fingerprint) const {
  return folder_ + "/" + fingerprint + ".json";
}

Result<Calibration> CalibrationStore::Load(const std::string& fingerprint) const {
  const std::string path = PathOf(fingerprint);
  const std::optional<std::string> text = ReadFileUpTo(path, kMostBytes + 1);
  if (folder_.empty() || !text) return Status::NotFound("the model was not calibrated");
  const Json object = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto unusable = [&path](const char* reason) {
    return Status::DataLoss(fmt::format("calibration {} is left out: {}", path, reason));
  };
  if (!object.is_object()) return unusable("it is damaged");
  if (!IsNumber(object, "version", 0) || object["version"] != kCalibrationVersion) {
    return unusable("another version of the program wrote it");
  }
  if (!IsText(object, "model", fingerprint)) return unusable("it is another model's");
  if (!IsText(object, "text_sha256", CalibrationTextSha256())) {
    return unusable("it was measured on another text");
  }
  std::optional<Calibration> calibration = FromJson(object);
  if (!calibration) return unusable("it is damaged");
  return std::move(*calibration);
}

Status CalibrationStore::Save(const std::string& fingerprint, Calibration calibration) const {
  if (folder_.empty()) return Status::Ok();
  const Result<Calibration> older = Load(fingerprint);
  if (older.ok() && older->weights == MeasuredWeights::kF16 &&
      calibration.weights == MeasuredWeights::kAsIs) {
    return Status::Ok();
  }
  if (older.ok() && MeasuredAlike(*older, calibration)) {
    std::vector<FormatQuality> newer = std::move(calibration.rows);
    calibration.rows = older->rows;
    MergeRows(newer, &calibration);
  }
  const Status kept =
      ReplaceFile(PathOf(fingerprint), ToJson(fingerprint, calibration).dump(1) + "\n");
  if (kept.ok()) return kept;
  return Status(kept.code(), "the calibration " + kept.message());
}

CalibrationStore ProcessCalibrationStore() {
  const std::string cache = CacheDirectory(ProcessEnvironment());
  return CalibrationStore(cache.empty() ? "" : cache + "/calibration");
}

}  // namespace swiftkv
