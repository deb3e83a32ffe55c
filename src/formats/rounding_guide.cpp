// SPDX-License-Identifier: Apache-2.0
// Factorises the second moment of queries.
#include "swiftkv/rounding_guide.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "formats/hadamard.h"

namespace swiftkv {
namespace {

constexpr double kDamping = 0.1;  // of the mean of the diagonal

// Returns H M H scaled to a mean diagonal of 1; empty where M is of no use.
std::vector<double> StoredMoment(std::span<const double> moment, int head_dim) {
  const auto dim = static_cast<std::size_t>(head_dim);
  double trace = 0;
  for (std::size_t i = 0; i < dim; ++i) trace += moment[i * dim + i];
  const double factor = static_cast<double>(dim) / trace;
  if (!(trace > 0) || !std::isfinite(trace) || !std::isfinite(factor)) return {};
  std::vector<double> scaled(dim * dim);
  std::vector<float> row(dim);
  // Rotates rows and transposes, twice.
  for (std::size_t i = 0; i < dim; ++i) {
    for (std::size_t j = 0; j < dim; ++j) row[j] = static_cast<float>(moment[i * dim + j] * factor);
    RotateRow(row.data(), head_dim);
    for (std::size_t j = 0; j < dim; ++j) scaled[j * dim + i] = static_cast<double>(row[j]);
  }
  std::vector<double> stored(dim * dim);
  for (std::size_t i = 0; i < dim; ++i) {
    for (std::size_t j = 0; j < dim; ++j) row[j] = static_cast<float>(scaled[i * dim + j]);
    RotateRow(row.data(), head_dim);
    for (std::size_t j = 0; j < dim; ++j) stored[i * dim + j] = static_cast<double>(row[j]);
  }
  const bool finite =
      std::all_of(stored.begin(), stored.end(), [](double value) { return std::isfinite(value); });
  return finite ? stored : std::vector<double>();
}

RoundingGuide GuideOfNoDirection(std::size_t dim) {
  return {std::vector<float>(dim * dim), std::vector<float>(dim, 1.0F)};
}

}  // namespace

// Eliminates channels from the last to the first: what is left of the moment of the channels before
// j, once j may be chosen freely to make up for them, is the Schur complement of j.
RoundingGuide GuideForQueries(std::span<const double> moment, int head_dim) {
  const auto dim = static_cast<std::size_t>(head_dim);
  SKV_CHECK(moment.size() == dim * dim);
  std::vector<double> rest = StoredMoment(moment, head_dim);
  if (rest.empty()) return GuideOfNoDirection(dim);
  for (std::size_t i = 0; i < dim; ++i) rest[i * dim + i] += kDamping;
  RoundingGuide guide = {std::vector<float>(dim * dim), std::vector<float>(dim)};
  for (std::size_t j = dim; j-- > 0;) {
    const double pivot = rest[j * dim + j];
    if (!(pivot > 0)) return GuideOfNoDirection(dim);  // no moment: not positive
    guide.weights[j] = static_cast<float>(pivot);
    for (std::size_t i = 0; i < j; ++i) {
      const double spread = rest[j * dim + i] / pivot;
      guide.spread[i * dim + j] = static_cast<float>(spread);
      for (std::size_t k = 0; k <= i; ++k) rest[i * dim + k] -= spread * rest[j * dim + k];
    }
  }
  return guide;
}

}  // namespace swiftkv
