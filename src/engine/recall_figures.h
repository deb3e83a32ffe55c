// SPDX-License-Identifier: Apache-2.0
// Sums what was scored of documents up: one figure a metric, with an interval, and differences
// between cells over the same documents. Layer: engine.
//
// Pure. Units of resampling are blocks of kUnitTokens neighbouring tokens of texts and copies, and
// single answers of needles.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/bootstrap.h"
#include "engine/forgetting_evaluation.h"
#include "engine/recall_tasks.h"

namespace swiftkv {

inline constexpr std::size_t kUnitTokens = 32;

// All are means over tokens, hits over answers; p99_kld is a quantile over tokens.
enum class RecallMetric : std::uint8_t {
  kMeanKld,
  kP99Kld,
  kSameTop1,
  kTextNll,  // its exponential is the perplexity
  kCopyNll,
  kNeedleNll,
  kNeedleHit,  // every token of the answer is the likeliest
  kNeedleInsideNll,
  kNeedleInsideHit,
  kMultiNeedleNll,
  kMultiNeedleHit,
};

struct RecallMetricInfo {
  RecallMetric metric;
  const char* name;  // "copy_nll": the key of its figures
  TaskKind kind;
  bool question_inside;  // of needles; for others false
};

std::span<const RecallMetricInfo> AllRecallMetrics();
inline constexpr std::size_t kRecallMetrics = 11;

// Figures of one metric of two cells and of their difference; nothing where no document is of it.
using RecallIntervals = std::array<std::optional<Interval>, kRecallMetrics>;  // [RecallMetric]

struct CellFigures {
  double bytes = 0;            // mean over the documents of kText, of all where there is none
  double bits_per_value = 0;   // likewise
  double kept_fraction = 0;    // likewise, of tokens and heads
  std::int64_t positions = 0;  // scored tokens of kText
  RecallIntervals intervals;
};

// `scores` are those of `documents`, in order.
CellFigures SummarizeCell(std::span<const RecallDocument> documents,
                          std::span<const CellScore> scores, const BootstrapSettings& settings);

// Returns the metrics of `a` less those of `b`, with paired intervals.
RecallIntervals CompareCells(std::span<const RecallDocument> documents,
                             std::span<const CellScore> a, std::span<const CellScore> b,
                             const BootstrapSettings& settings);

// Answers of one kind, length, depth and place of the question.
struct NeedleFigures {
  TaskKind kind = TaskKind::kNeedle;
  int length = 0;
  double depth = 0;  // 0 for kMultiNeedle, whose facts are at all depths
  bool question_inside = false;
  int answers = 0;
  double nll = 0;
  double hit = 0;
};

std::vector<NeedleFigures> NeedlesOf(std::span<const RecallDocument> documents,
                                     std::span<const CellScore> scores);

}  // namespace swiftkv
