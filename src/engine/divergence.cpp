// SPDX-License-Identifier: Apache-2.0
// Computes divergences without cancellation: near-equal distributions are what is measured.
#include "engine/divergence.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace swiftkv {
namespace {

double LogSumExp(std::span<const float> logits, float best) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - best);
  return best + std::log(sum);
}

std::size_t BestOf(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

// With p = softmax(x), q = softmax(y) and d = x - y, KL = sum p d + log(sum p exp(-d)), and the
// second term is log1p(sum p (exp(-d) - 1)): both sums are small where the logits are close, so
// nothing near 1 is subtracted from something near 1. d is taken against its value at the best
// token, because a shift common to all logits changes nothing.
Divergence CompareDistributions(std::span<const float> exact, std::span<const float> other,
                                TokenId next) {
  SKV_CHECK(exact.size() == other.size() && !exact.empty());
  SKV_CHECK(next >= 0 && static_cast<std::size_t>(next) < exact.size());
  const std::size_t best = BestOf(exact);
  const std::size_t best_of_other = BestOf(other);
  const double log_sum = LogSumExp(exact, exact[best]);
  const double shift = static_cast<double>(exact[best]) - other[best];
  double mean_difference = 0;
  double ratio = 0;  // sum of p exp(-d), less 1
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double p = std::exp(exact[i] - log_sum);
    const double difference = (static_cast<double>(exact[i]) - other[i]) - shift;
    mean_difference += p * difference;
    ratio += p * std::expm1(-difference);
  }
  Divergence divergence;
  divergence.same_top1 = best == best_of_other;
  divergence.kld = std::max(0.0, mean_difference + std::log1p(ratio));
  // log softmax(other)[next], from the same sum: lse(y) = lse(x) + log(sum p exp(-d)) - shift.
  divergence.nll = log_sum + std::log1p(ratio) - shift - other[static_cast<std::size_t>(next)];
  if (std::isfinite(divergence.kld) && std::isfinite(divergence.nll)) return divergence;
  // Beyond the range of a sum of ratios, or no distribution at all.
  const double other_log_sum = LogSumExp(other, other[best_of_other]);
  divergence.nll = other_log_sum - other[static_cast<std::size_t>(next)];
  divergence.kld = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double log_p = exact[i] - log_sum;
    divergence.kld += std::exp(log_p) * (log_p - (other[i] - other_log_sum));
  }
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  divergence.kld = std::isnan(divergence.kld) ? kInfinite : std::max(0.0, divergence.kld);
  if (std::isnan(divergence.nll)) divergence.nll = kInfinite;
  return divergence;
}

DivergenceFigures SummarizeDivergences(std::span<const Divergence> positions) {
  DivergenceFigures figures;
  if (positions.empty()) return figures;
  std::vector<double> klds;
  double nll = 0;
  for (const Divergence& position : positions) {
    klds.push_back(position.kld);
    figures.mean_kld += position.kld;
    figures.same_top1 += position.same_top1 ? 1 : 0;
    nll += position.nll;
  }
  const auto count = static_cast<double>(positions.size());
  figures.positions = static_cast<std::int64_t>(positions.size());
  figures.mean_kld /= count;
  figures.same_top1 /= count;
  figures.ppl = std::exp(nll / count);
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(0.99 * count)) - 1;
  std::nth_element(klds.begin(), klds.begin() + rank, klds.end());
  figures.p99_kld = klds[static_cast<std::size_t>(rank)];
  return figures;
}

}  // namespace swiftkv
