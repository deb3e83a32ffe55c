// SPDX-License-Identifier: Apache-2.0
// Computes divergences in double precision from float logits.
#include "support/logits.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/check.h"

namespace swiftkv {
namespace {

// Returns log sum exp of `row`. The single exponentials are float: their 1e-7 relative errors
// average out far below the 1e-6 that mean divergences are read to, and a vocabulary of 262,144
// costs a third of the time.
double LogSumExp(std::span<const float> row, float best) {
  double sum = 0.0;
  for (const float logit : row) sum += std::exp(logit - best);
  return best + std::log(sum);
}

}  // namespace

int32_t ArgMax(std::span<const float> row) {
  SKV_CHECK(!row.empty());
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

float TopGap(std::span<const float> row) {
  SKV_CHECK(row.size() >= 2);
  float best = std::max(row[0], row[1]);
  float second = std::min(row[0], row[1]);
  for (const float logit : row.subspan(2)) {
    if (logit > best) {
      second = best;
      best = logit;
    } else {
      second = std::max(second, logit);
    }
  }
  return best - second;
}

float MaxAbsDifference(std::span<const float> a, std::span<const float> b) {
  SKV_CHECK(a.size() == b.size());
  float largest = 0.0F;
  for (size_t i = 0; i < a.size(); ++i) {
    const float difference = std::fabs(a[i] - b[i]);
    // A maximum would lose a NaN, which must fail every bound instead.
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

double Deviation(std::span<const float> row) {
  SKV_CHECK(!row.empty());
  double sum = 0.0;
  double squares = 0.0;
  for (const float logit : row) {
    sum += logit;
    squares += static_cast<double>(logit) * logit;
  }
  const auto count = static_cast<double>(row.size());
  const double mean = sum / count;
  return std::sqrt(std::max(0.0, squares / count - mean * mean));
}

double LogProbability(std::span<const float> row, int32_t token) {
  const float best = *std::max_element(row.begin(), row.end());
  return row[static_cast<size_t>(token)] - LogSumExp(row, best);
}

double KlDivergence(std::span<const float> reference, std::span<const float> other) {
  SKV_CHECK(reference.size() == other.size());
  const float best = *std::max_element(reference.begin(), reference.end());
  const float other_best = *std::max_element(other.begin(), other.end());
  double sum = 0.0;
  double weighted = 0.0;
  double other_sum = 0.0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double weight = std::exp(reference[i] - best);
    sum += weight;
    weighted += weight * (static_cast<double>(reference[i]) - other[i]);
    other_sum += std::exp(other[i] - other_best);
  }
  const double log_ratio = (other_best + std::log(other_sum)) - (best + std::log(sum));
  const double divergence = weighted / sum + log_ratio;
  // Rounding can leave a tiny negative; a NaN must not become 0.
  return divergence < 0.0 ? 0.0 : divergence;
}

DivergenceSummary::Row DivergenceSummary::Compare(std::span<const float> reference,
                                                  std::span<const float> other) {
  Row row;
  row.divergence = KlDivergence(reference, other);
  const auto first = static_cast<size_t>(ArgMax(reference));
  const auto second = static_cast<size_t>(ArgMax(other));
  row.same_top1 = first == second;
  // Log probabilities of one row differ as its logits do.
  row.gap = std::max(static_cast<double>(reference[first]) - reference[second],
                     static_cast<double>(other[second]) - other[first]);
  return row;
}

void DivergenceSummary::Add(std::span<const float> reference, std::span<const float> other) {
  rows_.push_back(Compare(reference, other));
}

void DivergenceSummary::AddRows(const Logits& reference, const Logits& other) {
  SKV_CHECK(reference.rows == other.rows);
  const size_t begin = rows_.size();
  rows_.resize(begin + static_cast<size_t>(reference.rows));
  const auto compare = [&](int first, int end) {
    for (int row = first; row < end; ++row) {
      rows_[begin + static_cast<size_t>(row)] = Compare(reference.Row(row), other.Row(row));
    }
  };
  const int half = reference.rows / 2;
  std::thread lower(compare, 0, half);
  compare(half, reference.rows);
  lower.join();
}

double DivergenceSummary::MeanKld() const {
  SKV_CHECK(!rows_.empty());
  double sum = 0.0;
  for (const Row& row : rows_) sum += row.divergence;
  return sum / static_cast<double>(rows_.size());
}

double DivergenceSummary::KldPercentile(double percent) const {
  SKV_CHECK(!rows_.empty() && percent > 0.0 && percent <= 100.0);
  std::vector<double> sorted;
  for (const Row& row : rows_) sorted.push_back(row.divergence);
  std::sort(sorted.begin(), sorted.end());
  const double rank = std::ceil(percent / 100.0 * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(rank) - 1];
}

double DivergenceSummary::SameTop1() const {
  SKV_CHECK(!rows_.empty());
  return 1.0 - static_cast<double>(Parted()) / static_cast<double>(rows_.size());
}

int64_t DivergenceSummary::Parted() const {
  return std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return !row.same_top1; });
}

double DivergenceSummary::MeanGap() const {
  double sum = 0.0;
  for (const Row& row : rows_) sum += row.same_top1 ? 0.0 : row.gap;
  return Parted() == 0 ? 0.0 : sum / static_cast<double>(Parted());
}

double DivergenceSummary::WidestGap() const {
  double widest = 0.0;
  for (const Row& row : rows_) widest = std::max(widest, row.same_top1 ? 0.0 : row.gap);
  return widest;
}

}  // namespace swiftkv
