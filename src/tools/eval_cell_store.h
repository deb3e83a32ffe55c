// SPDX-License-Identifier: Apache-2.0
// Keeps what `eval` has measured of each document in each cell, so that a run that was stopped goes
// on where it was.
//
// One small JSON file a document and cell, named after the SHA-256 of its key: a text of everything
// that decides the figures. A file is written beside its place and renamed into it. What is
// damaged, or of another key, counts as not there, and is measured and written again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/forgetting_evaluation.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Raised when stored figures would no longer be those that this program measures.
inline constexpr int kEvalCellVersion = 1;

class EvalCellStore {
 public:
  // `folder`: where the files lie; empty keeps nothing.
  explicit EvalCellStore(std::string folder) : folder_(std::move(folder)) {}

  // Returns what is kept under the key, whose continuations have `scored_tokens` tokens each;
  // nothing where no whole file is.
  std::optional<CellScore> Load(const std::string& key,
                                const std::vector<std::size_t>& scored_tokens) const;

  // Errors: Internal with the path where the file cannot be written.
  Status Save(const std::string& key, const CellScore& score) const;

  std::string PathOf(const std::string& key) const;

 private:
  std::string folder_;
};

}  // namespace swiftkv
