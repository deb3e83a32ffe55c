// SPDX-License-Identifier: Apache-2.0
// Keeps the query statistics of each model in a file beside its calibration.
//
// A file is written beside its place and renamed into it. What cannot be used (damage, another
// model's, another version's) counts as not there, with the reason. docs/eval.md states the bytes.
#pragma once

#include <cstdint>
#include <string>

#include "engine/query_figures.h"
#include "model/decoder_spec.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Raised when the bytes, or what is measured, change.
inline constexpr int kQueryFiguresVersion = 1;

class QueryFiguresStore {
 public:
  // `folder`: where the files lie; empty keeps nothing.
  explicit QueryFiguresStore(std::string folder) : folder_(std::move(folder)) {}

  // Reads what was measured of a model. Errors: NotFound where nothing was; DataLoss, with the
  // reason, for a file that cannot be used.
  Result<ModelQueryFigures> Load(const std::string& model, const DecoderSpec& spec) const;

  // Keeps figures and returns them with their fingerprint. Errors: Internal with the path where the
  // file cannot be written.
  Result<ModelQueryFigures> Save(const std::string& model, const DecoderSpec& spec,
                                 ModelQueryFigures figures) const;

  std::string PathOf(const std::string& model) const;

 private:
  std::string folder_;
};

// The store of this user: the folder of the calibration.
QueryFiguresStore ProcessQueryFiguresStore();

}  // namespace swiftkv
