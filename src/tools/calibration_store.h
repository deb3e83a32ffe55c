// SPDX-License-Identifier: Apache-2.0
// Keeps the calibration of each model in a small file named after the model's fingerprint.
//
// Several processes may read and write at once: a file is written beside its place and renamed into
// it, so readers see an old one or a new one, whole. What cannot be used (damage, another text,
// another version of the formats) counts as not there; figures are never worth an error.
#pragma once

#include <string>

#include "engine/calibration.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Raised when stored figures would no longer be those that this program measures.
inline constexpr int kCalibrationVersion = 2;

class CalibrationStore {
 public:
  // `folder`: where the files lie; empty keeps nothing.
  explicit CalibrationStore(std::string folder) : folder_(std::move(folder)) {}

  // Reads what is known of a model. Errors: NotFound where nothing is; DataLoss, with the reason,
  // for a file that cannot be used.
  Result<Calibration> Load(const std::string& fingerprint) const;

  // Keeps `calibration`, with the rows of an older one that was measured the same way; figures
  // without a noise floor are not replaced by ones with it. Errors: Internal with the path where
  // the file cannot be written.
  Status Save(const std::string& fingerprint, Calibration calibration) const;

  std::string PathOf(const std::string& fingerprint) const;

 private:
  std::string folder_;
};

// The store of this user: the folder `calibration` in the set-up's cache (see CacheDirectory).
CalibrationStore ProcessCalibrationStore();

}  // namespace swiftkv
