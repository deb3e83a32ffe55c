// SPDX-License-Identifier: Apache-2.0
// Looks the model's calibration up, and makes what `--kv auto` lacks.
#include "tools/kv_choice.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "formats/page_format_table.h"
#include "model/fingerprint.h"
#include "model/gguf_file.h"
#include "tools/calibration_text.h"
#include "tools/eval_options.h"

namespace swiftkv {
namespace {

constexpr const char* kFallback = "f16";

std::optional<Calibration> LoadCalibration(const KvChoiceTask& task,
                                           const std::string& fingerprint) {
  Result<Calibration> calibration = task.store->Load(fingerprint);
  if (calibration.ok()) return std::move(*calibration);
  spdlog::info("{}", calibration.status().message());
  return std::nullopt;
}

Result<std::string> FingerprintOf(const std::string& path) {
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  return ModelFingerprint(*file);
}

std::string LossText(const Calibration& calibration, const FormatQuality& row) {
  std::string text = fmt::format("{} loses a mean KLD of {:.2g} on this model", row.format,
                                 FormatLoss(calibration, row));
  if (calibration.weights == MeasuredWeights::kAsIs) text += " beyond its weights' own noise";
  return text;
}

Result<KvChoice> JudgeExplicit(const KvChoiceTask& task) {
  KvChoice choice;
  SKV_ASSIGN_OR_RETURN(choice.format, PageFormatOf(task.cache));
  if (JudgeFormat(choice.format, nullptr) == LossVerdict::kFine) return choice;
  SKV_ASSIGN_OR_RETURN(const std::string fingerprint, FingerprintOf(task.model.path));
  const std::optional<Calibration> calibration = LoadCalibration(task, fingerprint);
  const std::string name = PageFormatName(choice.format);
  const FormatQuality* row = calibration ? calibration->Find(name) : nullptr;
  if (row != nullptr) {
    choice.mean_kld = row->loss.mean_kld;
    choice.weights = calibration->weights;
  }
  switch (JudgeFormat(choice.format, calibration ? &*calibration : nullptr)) {
    case LossVerdict::kFine:
      break;
    case LossVerdict::kUnknown:
      task.tell(
          fmt::format("what {} loses on this model is not known; `swiftkv eval -m {} --formats {}` "
                      "measures it",
                      name, task.model.path, name));
      break;
    case LossVerdict::kLossy:
      task.tell(fmt::format("{}, more than {}; --kv auto chooses a format that loses less",
                            LossText(*calibration, *row), kFineMeanKld));
      break;
    case LossVerdict::kRuined:
      if (!task.cache.force) {
        return Status::InvalidArgument(
            fmt::format("{}, more than {}, so its replies would be poor; choose another format "
                        "with --kv, or insist with --force; got {}",
                        LossText(*calibration, *row), kRuinedMeanKld, name));
      }
      task.tell(fmt::format("{}, more than {}; used because of --force",
                            LossText(*calibration, *row), kRuinedMeanKld));
  }
  return choice;
}

// Formats that `auto` may take and has no figures of: below 16 bits, within the ceiling, and
// served.
Result<std::vector<PageFormat>> MissingCandidates(const ModelOptions& model,
                                                  const Calibration* known, Quality ceiling) {
  std::vector<PageFormat> missing;
  for (const NamedPageFormat& row : AllPageFormats()) {
    const bool is_candidate = Serves(PageFormatQuality(row.format), ceiling) &&
                              JudgeFormat(row.format, nullptr) != LossVerdict::kFine;
    const bool is_known = known != nullptr && known->Find(row.name) != nullptr;
    if (is_candidate && !is_known) missing.push_back(row.format);
  }
  if (missing.empty()) return missing;
  return ServedFormats(model, missing);
}

Result<Calibration> MeasureMissing(const KvChoiceTask& task, const std::string& fingerprint,
                                   std::optional<Calibration> known,
                                   std::vector<PageFormat> missing) {
  std::string names;
  for (const PageFormat& format : missing) {
    names += (names.empty() ? "" : ", ") + PageFormatName(format);
  }
  task.tell(fmt::format("measuring once what {} lose on this model", names));
  const auto start = std::chrono::steady_clock::now();
  MeasurementTask measurement_task;
  measurement_task.model = task.model;
  measurement_task.model.context = 0;
  measurement_task.model.max_batch_rows = kEvalChunk;
  measurement_task.text = CalibrationText();
  measurement_task.formats = std::move(missing);
  SKV_ASSIGN_OR_RETURN(const PageFormat baseline, FindPageFormat(kFallback));
  measurement_task.formats.insert(measurement_task.formats.begin(), baseline);
  measurement_task.temporary_folder = task.temporary_folder;
  measurement_task.memory = task.cache.memory;
  // New rows must be comparable with those that are there.
  if (known) measurement_task.weights = known->weights;
  SKV_ASSIGN_OR_RETURN(const Measurement measurement, task.measure(measurement_task));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  task.tell(fmt::format("measuring took {:.1f} s; the figures are kept", took.count()));
  Calibration calibration = CalibrationOf(measurement, CalibrationTextSha256());
  const Status kept = task.store->Save(fingerprint, calibration);
  if (!kept.ok()) spdlog::warn("{}", kept.message());
  if (!known) return calibration;
  MergeRows(calibration.rows, &*known);
  return std::move(*known);
}

Result<KvChoice> ChooseAutomatically(const KvChoiceTask& task) {
  const Quality ceiling = task.cache.quality.value_or(Quality::kAny);
  SKV_ASSIGN_OR_RETURN(const std::string fingerprint, FingerprintOf(task.model.path));
  std::optional<Calibration> calibration = LoadCalibration(task, fingerprint);
  SKV_ASSIGN_OR_RETURN(
      std::vector<PageFormat> missing,
      MissingCandidates(task.model, calibration ? &*calibration : nullptr, ceiling));
  if (!missing.empty()) {
    SKV_ASSIGN_OR_RETURN(
        calibration, MeasureMissing(task, fingerprint, std::move(calibration), std::move(missing)));
  }
  KvChoice choice;
  choice.is_automatic = true;
  const FormatQuality* row = calibration ? SmallestFineFormat(*calibration, ceiling) : nullptr;
  if (row == nullptr && calibration) row = calibration->Find(kFallback);
  SKV_ASSIGN_OR_RETURN(choice.format, FindPageFormat(row == nullptr ? kFallback : row->format));
  if (row != nullptr) {
    choice.mean_kld = row->loss.mean_kld;
    choice.weights = calibration->weights;
    spdlog::info("--kv auto takes {}: mean KLD {:.2g}, {:.2f} bits a value", row->format,
                 row->loss.mean_kld, row->bits_per_value);
  }
  return choice;
}

}  // namespace

Result<KvChoice> ChooseKvFormat(const KvChoiceTask& task) {
  return WantsAutomaticFormat(task.cache) ? ChooseAutomatically(task) : JudgeExplicit(task);
}

void Apply(const KvChoice& choice, CacheOptions* cache) {
  cache->format = kFallback;
  cache->key_format = choice.format.key->info().name;
  cache->value_format = choice.format.value->info().name;
}

}  // namespace swiftkv
