// SPDX-License-Identifier: Apache-2.0
// Folds chunks of queries into running means and sums of products of deviations.
#include "policy/query_statistics.h"

#include <algorithm>

#include "base/check.h"

namespace swiftkv {
namespace {

constexpr int kChunkRows = 64;

}  // namespace

QueryStatistics::QueryStatistics(int num_heads, int head_dim)
    : dim_(static_cast<std::size_t>(head_dim)),
      counts_(static_cast<std::size_t>(num_heads)),
      means_(static_cast<std::size_t>(num_heads) * dim_),
      products_(static_cast<std::size_t>(num_heads) * triangle()) {
  SKV_CHECK(num_heads > 0 && head_dim > 0);
}

void QueryStatistics::Add(const QueryRows& queries) {
  SKV_CHECK(queries.first_head >= 0 && queries.end_head <= static_cast<int>(counts_.size()));
  std::vector<double> mean(dim_);
  std::vector<float> deviations(static_cast<std::size_t>(kChunkRows) * dim_);
  for (int head = queries.first_head; head < queries.end_head; ++head) {
    const auto h = static_cast<std::size_t>(head);
    float* const products = products_.data() + h * triangle();
    for (int first = 0; first < queries.num_rows; first += kChunkRows) {
      const auto count = static_cast<std::size_t>(std::min(kChunkRows, queries.num_rows - first));
      const float* const rows =
          queries.rows + static_cast<std::size_t>(first) * queries.row_stride + h * dim_;
      std::fill(mean.begin(), mean.end(), 0.0);
      for (std::size_t r = 0; r < count; ++r) {
        const float* const row = rows + r * queries.row_stride;
        for (std::size_t i = 0; i < dim_; ++i) mean[i] += static_cast<double>(row[i]);
      }
      for (double& value : mean) value /= static_cast<double>(count);
      for (std::size_t r = 0; r < count; ++r) {
        const float* const row = rows + r * queries.row_stride;
        for (std::size_t i = 0; i < dim_; ++i) {
          deviations[r * dim_ + i] = static_cast<float>(static_cast<double>(row[i]) - mean[i]);
        }
      }
      for (std::size_t r = 0; r < count; ++r) {
        const float* const deviation = deviations.data() + r * dim_;
        float* row = products;
        for (std::size_t i = 0; i < dim_; row += ++i) {
          for (std::size_t j = 0; j <= i; ++j) row[j] += deviation[i] * deviation[j];
        }
      }
      FoldMean(h, static_cast<std::int64_t>(count), mean);
    }
  }
}

void QueryStatistics::FoldMean(std::size_t head, std::int64_t count, std::span<const double> mean) {
  if (count == 0) return;
  const auto before = static_cast<double>(counts_[head]);
  const auto added = static_cast<double>(count);
  double* const means = means_.data() + head * dim_;
  const double weight = before * added / (before + added);
  float* row = products_.data() + head * triangle();
  for (std::size_t i = 0; i < dim_; row += ++i) {
    const double apart = weight * (mean[i] - means[i]);
    for (std::size_t j = 0; j <= i; ++j) row[j] += static_cast<float>(apart * (mean[j] - means[j]));
  }
  for (std::size_t i = 0; i < dim_; ++i)
    means[i] += (mean[i] - means[i]) * added / (before + added);
  counts_[head] += count;
}

void QueryStatistics::Merge(const QueryStatistics& other) {
  SKV_CHECK(dim_ == other.dim_ && counts_.size() == other.counts_.size());
  SKV_CHECK(this != &other);
  for (std::size_t i = 0; i < products_.size(); ++i) products_[i] += other.products_[i];
  for (std::size_t head = 0; head < counts_.size(); ++head) {
    FoldMean(head, other.counts_[head], std::span(other.means_).subspan(head * dim_, dim_));
  }
}

void QueryStatistics::CopyMean(std::span<float> mean) const {
  SKV_CHECK(mean.size() == means_.size());
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(means_[i]);
}

void QueryStatistics::CopyCovariance(std::span<float> covariance) const {
  SKV_CHECK(covariance.size() == counts_.size() * dim_ * dim_);
  for (std::size_t head = 0; head < counts_.size(); ++head) {
    const float inverse = 1.0F / static_cast<float>(std::max<std::int64_t>(1, counts_[head]));
    float* const square = covariance.data() + head * dim_ * dim_;
    const float* row = products_.data() + head * triangle();
    for (std::size_t i = 0; i < dim_; row += ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        square[i * dim_ + j] = square[j * dim_ + i] = row[j] * inverse;
      }
    }
  }
}

std::uint64_t QueryStatistics::heap_bytes() const {
  return counts_.capacity() * sizeof(std::int64_t) + means_.capacity() * sizeof(double) +
         products_.capacity() * sizeof(float);
}

}  // namespace swiftkv
