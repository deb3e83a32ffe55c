// SPDX-License-Identifier: Apache-2.0
// Cuts scored tokens into units and hands them to the bootstrap.
#include "engine/recall_figures.h"

#include <algorithm>

#include "base/check.h"

namespace swiftkv {
namespace {

constexpr double kHighQuantile = 0.99;

constexpr std::array<RecallMetricInfo, kRecallMetrics> kMetrics = {{
    {RecallMetric::kMeanKld, "mean_kld", TaskKind::kText, false},
    {RecallMetric::kP99Kld, "p99_kld", TaskKind::kText, false},
    {RecallMetric::kSameTop1, "same_top1", TaskKind::kText, false},
    {RecallMetric::kTextNll, "text_nll", TaskKind::kText, false},
    {RecallMetric::kCopyNll, "copy_nll", TaskKind::kCopy, false},
    {RecallMetric::kNeedleNll, "needle_nll", TaskKind::kNeedle, false},
    {RecallMetric::kNeedleHit, "needle_hit", TaskKind::kNeedle, false},
    {RecallMetric::kNeedleInsideNll, "needle_inside_nll", TaskKind::kNeedle, true},
    {RecallMetric::kNeedleInsideHit, "needle_inside_hit", TaskKind::kNeedle, true},
    {RecallMetric::kMultiNeedleNll, "multi_needle_nll", TaskKind::kMultiNeedle, false},
    {RecallMetric::kMultiNeedleHit, "multi_needle_hit", TaskKind::kMultiNeedle, false},
}};

bool CountsAnswers(RecallMetric metric) {
  return metric == RecallMetric::kNeedleHit || metric == RecallMetric::kNeedleInsideHit ||
         metric == RecallMetric::kMultiNeedleHit;
}

double ValueOf(RecallMetric metric, const ScoredToken& token) {
  switch (metric) {
    case RecallMetric::kMeanKld:
    case RecallMetric::kP99Kld:
      return token.kld;
    case RecallMetric::kSameTop1:
      return token.same_top1 ? 1 : 0;
    default:
      return token.nll;
  }
}

bool IsHit(std::span<const ScoredToken> answer) {
  return std::all_of(answer.begin(), answer.end(),
                     [](const ScoredToken& token) { return token.hit; });
}

// Calls visit(tokens) for every unit of the metric.
template <typename Visit>
void ForUnits(const RecallMetricInfo& info, std::span<const RecallDocument> documents,
              std::span<const CellScore> scores, const Visit& visit) {
  SKV_CHECK(documents.size() == scores.size());
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (documents[i].kind != info.kind || documents[i].question_inside != info.question_inside) {
      continue;
    }
    const bool is_answer = info.kind == TaskKind::kNeedle || info.kind == TaskKind::kMultiNeedle;
    for (const std::vector<ScoredToken>& tokens : scores[i].continuations) {
      const std::size_t unit = is_answer ? std::max<std::size_t>(1, tokens.size()) : kUnitTokens;
      for (std::size_t begin = 0; begin < tokens.size(); begin += unit) {
        visit(std::span(tokens).subspan(begin, std::min(unit, tokens.size() - begin)));
      }
    }
  }
}

std::vector<ResampledUnit> UnitsOf(const RecallMetricInfo& info,
                                   std::span<const RecallDocument> documents,
                                   std::span<const CellScore> scores) {
  std::vector<ResampledUnit> units;
  ForUnits(info, documents, scores, [&](std::span<const ScoredToken> tokens) {
    ResampledUnit& unit = units.emplace_back();
    if (CountsAnswers(info.metric)) {
      unit = {IsHit(tokens) ? 1.0 : 0.0, 1};
      return;
    }
    unit.count = static_cast<double>(tokens.size());
    for (const ScoredToken& token : tokens) unit.sum += ValueOf(info.metric, token);
  });
  return units;
}

std::vector<std::vector<double>> SamplesOf(const RecallMetricInfo& info,
                                           std::span<const RecallDocument> documents,
                                           std::span<const CellScore> scores) {
  std::vector<std::vector<double>> units;
  ForUnits(info, documents, scores, [&](std::span<const ScoredToken> tokens) {
    std::vector<double>& unit = units.emplace_back();
    for (const ScoredToken& token : tokens) unit.push_back(ValueOf(info.metric, token));
  });
  return units;
}

std::optional<Interval> IntervalOf(const RecallMetricInfo& info,
                                   std::span<const RecallDocument> documents,
                                   std::span<const CellScore> scores,
                                   const BootstrapSettings& settings) {
  if (info.metric == RecallMetric::kP99Kld) {
    const auto units = SamplesOf(info, documents, scores);
    if (units.empty()) return std::nullopt;
    return BootstrapQuantile(units, kHighQuantile, settings);
  }
  const std::vector<ResampledUnit> units = UnitsOf(info, documents, scores);
  if (units.empty()) return std::nullopt;
  return BootstrapMean(units, settings);
}

}  // namespace

std::span<const RecallMetricInfo> AllRecallMetrics() { return kMetrics; }

CellFigures SummarizeCell(std::span<const RecallDocument> documents,
                          std::span<const CellScore> scores, const BootstrapSettings& settings) {
  CellFigures figures;
  const bool has_text =
      std::any_of(documents.begin(), documents.end(),
                  [](const RecallDocument& document) { return document.kind == TaskKind::kText; });
  double counted = 0;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const bool is_text = documents[i].kind == TaskKind::kText;
    if (has_text && !is_text) continue;
    const CellScore& score = scores[i];
    counted += 1;
    figures.bytes += static_cast<double>(score.bytes);
    figures.bits_per_value += score.bits_per_value;
    figures.kept_fraction += score.whole_tokens == 0 ? 1
                                                     : static_cast<double>(score.kept_tokens) /
                                                           static_cast<double>(score.whole_tokens);
    if (!is_text) continue;
    for (const auto& tokens : score.continuations) {
      figures.positions += static_cast<std::int64_t>(tokens.size());
    }
  }
  if (counted > 0) {
    figures.bytes /= counted;
    figures.bits_per_value /= counted;
    figures.kept_fraction /= counted;
  }
  for (const RecallMetricInfo& info : kMetrics) {
    figures.intervals[static_cast<std::size_t>(info.metric)] =
        IntervalOf(info, documents, scores, settings);
  }
  return figures;
}

RecallIntervals CompareCells(std::span<const RecallDocument> documents,
                             std::span<const CellScore> a, std::span<const CellScore> b,
                             const BootstrapSettings& settings) {
  RecallIntervals intervals;
  for (const RecallMetricInfo& info : kMetrics) {
    if (info.metric == RecallMetric::kP99Kld) continue;  // a quantile's pairs cancel nothing
    const std::vector<ResampledUnit> of_a = UnitsOf(info, documents, a);
    if (of_a.empty()) continue;
    intervals[static_cast<std::size_t>(info.metric)] =
        BootstrapDifference(of_a, UnitsOf(info, documents, b), settings);
  }
  return intervals;
}

std::vector<NeedleFigures> NeedlesOf(std::span<const RecallDocument> documents,
                                     std::span<const CellScore> scores) {
  std::vector<NeedleFigures> figures;
  std::vector<double> tokens;  // [figures] of answers
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const RecallDocument& document = documents[i];
    if (document.kind != TaskKind::kNeedle && document.kind != TaskKind::kMultiNeedle) continue;
    const auto same = std::find_if(figures.begin(), figures.end(), [&](const NeedleFigures& row) {
      return row.kind == document.kind && row.length == document.length &&
             row.depth == document.depth && row.question_inside == document.question_inside;
    });
    const auto index = static_cast<std::size_t>(same - figures.begin());
    if (same == figures.end()) {
      figures.push_back({document.kind, document.length, document.depth, document.question_inside});
      tokens.push_back(0);
    }
    NeedleFigures& row = figures[index];
    for (const std::vector<ScoredToken>& answer : scores[i].continuations) {
      ++row.answers;
      row.hit += IsHit(answer) ? 1 : 0;
      for (const ScoredToken& token : answer) row.nll += token.nll;
      tokens[index] += static_cast<double>(answer.size());
    }
  }
  for (std::size_t i = 0; i < figures.size(); ++i) {
    figures[i].hit /= std::max(1, figures[i].answers);
    figures[i].nll /= std::max(1.0, tokens[i]);
  }
  return figures;
}

}  // namespace swiftkv
