// SPDX-License-Identifier: Apache-2.0
// Settles the format of a model's cache before the model is loaded, by what calibration knows.
//
// An explicit format is judged by kept figures and never measured: unknown or lossy ones are warned
// of, ruinous ones refused. `--kv auto` measures what is missing, and keeps it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/calibration.h"
#include "engine/engine_options.h"
#include "swiftkv/page_layout.h"
#include "swiftkv/status.h"
#include "tools/calibration_store.h"
#include "tools/quality_measurement.h"

namespace swiftkv {

struct KvChoice {
  PageFormat format;
  bool is_automatic = false;
  std::optional<double> mean_kld;  // of the format on this model, where it is known
  MeasuredWeights weights = MeasuredWeights::kF16;  // that it was measured with
};

struct KvChoiceTask {
  ModelOptions model;  // path set
  CacheOptions cache;
  const CalibrationStore* store = nullptr;
  std::string temporary_folder;
  // Measures formats; MeasureQuality but in tests.
  std::function<Result<Measurement>(const MeasurementTask& task)> measure;
  // Tells the user one sentence, without a full stop.
  std::function<void(const std::string& sentence)> tell;
};

// Errors: InvalidArgument for a format that ruins the model, unless forced; for `auto` those of
// measuring; those of opening the file.
Result<KvChoice> ChooseKvFormat(const KvChoiceTask& task);

// Puts the choice into the options.
void Apply(const KvChoice& choice, CacheOptions* cache);

}  // namespace swiftkv
