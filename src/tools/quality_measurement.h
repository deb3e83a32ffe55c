// SPDX-License-Identifier: Apache-2.0
// Measures page formats on a model file: weights, vocabulary and text come together here, for
// `eval` and for `--kv auto`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/calibration.h"
#include "engine/option_field.h"
#include "engine/quality_evaluation.h"
#include "model/language_model.h"
#include "model/vocabulary.h"
#include "swiftkv/status.h"

namespace swiftkv {

struct MeasurementTask {
  ModelOptions model;     // path and how to compute; max_batch_rows: tokens of a step
  std::string_view text;  // UTF-8
  std::vector<PageFormat> formats;
  std::optional<MeasuredWeights> weights;  // none: F16 where that fits
  std::string temporary_folder;            // for the F16 weights
  MemoryLimit memory;                      // of the cache that holds what is measured
};

struct Measurement {
  std::string fingerprint;  // of the model's file as it is
  MeasuredWeights weights = MeasuredWeights::kF16;
  std::string weights_reason;  // why not F16; empty where they are or were not wanted
  QualityReport report;
};

// What is being done, for a progress line: "F16 weights", "loading", "measuring".
using StageCallback = std::function<bool(const char* stage, double done)>;

// Tokens of a window where the user gives none.
inline constexpr int kCalibrationContext = 2048;

// Returns the loss of f16, which is all that lies below what any format can be blamed for.
double NoiseFloorOf(const QualityReport& report);

// Returns the figures as they are kept.
Calibration CalibrationOf(const Measurement& measurement, const std::string& text_sha256);

// Returns those of `formats` that the kernels and codecs serve for the model's shapes. Errors:
// those of opening the file and of describing its decoder.
Result<std::vector<PageFormat>> ServedFormats(const ModelOptions& model,
                                              const std::vector<PageFormat>& formats);

// A model with the weights that suit measuring.
struct MeasuredModel {
  std::string fingerprint;  // of the model's file as it is
  MeasuredWeights weights = MeasuredWeights::kF16;
  std::string weights_reason;  // why not F16; empty where they are or were not wanted
  std::unique_ptr<Vocabulary> vocabulary;
  std::unique_ptr<LanguageModel> model;
};

// Loads it; of the task, what concerns model and weights. Errors: those of loading; where F16
// weights were asked for and cannot be made, why.
Result<MeasuredModel> LoadMeasuredModel(const MeasurementTask& task, const StageCallback& progress);

// Errors: those of loading and of EvaluateQuality; where F16 weights were asked for and cannot be
// made, why.
Result<Measurement> MeasureQuality(const MeasurementTask& task, const StageCallback& progress,
                                   const std::atomic<bool>* cancel);

}  // namespace swiftkv
