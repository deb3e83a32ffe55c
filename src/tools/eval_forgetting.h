// SPDX-License-Identifier: Apache-2.0
// Measures formats, policies and ratios on a model: documents, cells, the store and the model come
// together here.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "engine/recall_figures.h"
#include "engine/recall_tasks.h"
#include "swiftkv/status.h"
#include "tools/eval_cells.h"
#include "tools/quality_measurement.h"

namespace swiftkv {

struct ForgettingTask {
  MeasurementTask measurement;  // model, text, weights, memory; formats are in the cells
  int chunk = 32;               // tokens of a step after the prefix
  std::vector<EvalCell> cells;
  RecallSettings documents;        // BOS is the model's; a context of 0: kCalibrationContext
  std::string folder;              // of finished cells; empty: nothing is kept
  bool use_query_figures = false;  // those measured of the model, instead of each prefix's own
};

// Figures of a cell, and its differences from others of the same format and ratio; nothing where
// the other is this cell or was not measured.
struct ForgettingRow {
  CellFigures figures;
  std::optional<RecallIntervals> less_random;
  std::optional<RecallIntervals> less_sink_recent;
  std::optional<RecallIntervals> less_uniform;  // the same policy and way to keep, split uniformly
  std::optional<RecallIntervals> less_same;     // the same policy and split, kept as same
  std::vector<NeedleFigures> needles;
};

struct ForgettingReport {
  std::string fingerprint;  // of the model's file as it is
  MeasuredWeights weights = MeasuredWeights::kF16;
  std::string weights_reason;
  std::string query_figures;  // their fingerprint; empty: of each prefix
  int context = 0;
  int chunk = 0;
  int documents = 0;
  int kept_cells = 0;               // of documents and cells, those found in the folder
  int cells = 0;                    // of documents and cells, all
  std::vector<ForgettingRow> rows;  // [task.cells]
};

// Measures what the folder does not hold. Errors: those of LoadMeasuredModel, MakeRecallDocuments
// and ScoreDocument; NotFound and DataLoss of the query statistics; Cancelled: what was finished is
// kept.
Result<ForgettingReport> MeasureForgetting(const ForgettingTask& task,
                                           const StageCallback& progress,
                                           const std::atomic<bool>* cancel);

// Measures the model's query statistics on the task's text and keeps them. Returns their
// fingerprint.
Result<std::string> MeasureAndKeepQueryFigures(const MeasurementTask& task,
                                               const StageCallback& progress,
                                               const std::atomic<bool>* cancel);

}  // namespace swiftkv
