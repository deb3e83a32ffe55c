// SPDX-License-Identifier: Apache-2.0
// Gives the guides of a model's keys: those that are kept in a file, else measured once and kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "model/language_model.h"
#include "model/vocabulary.h"
#include "swiftkv/rounding_guide.h"
#include "swiftkv/status.h"

namespace swiftkv {

class KeyGuideStore {
 public:
  // Files named after the model's fingerprint in `folder`; an empty name keeps nothing.
  explicit KeyGuideStore(std::string folder) : folder_(std::move(folder)) {}

  // Returns the guides, measured on the calibration text where no file holds whole ones for this
  // model's shapes; while measuring, a cache takes at most `kv_bytes`, and guides that this cuts
  // short are not kept. A file that cannot be written is no error: they are measured again next
  // time. Errors: those of MeasureKeyGuides.
  Result<std::shared_ptr<const KeyGuides>> Guides(LanguageModel* model,
                                                  const Vocabulary& vocabulary,
                                                  std::uint64_t kv_bytes,
                                                  const std::atomic<bool>* cancel) const;

  std::string PathOf(const std::string& fingerprint) const;

 private:
  std::string folder_;
};

// Measures on the calibration text, whatever is kept. Errors: those of MeasureKeyGuides.
Result<std::shared_ptr<const KeyGuides>> GuidesFromCalibrationText(LanguageModel* model,
                                                                   const Vocabulary& vocabulary,
                                                                   std::uint64_t kv_bytes,
                                                                   const std::atomic<bool>* cancel);

// The store of this user: the folder `guides` in the set-up's cache (see CacheDirectory).
KeyGuideStore ProcessKeyGuideStore();

}  // namespace swiftkv
