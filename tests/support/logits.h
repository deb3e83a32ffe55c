// SPDX-License-Identifier: Apache-2.0
// Holds the logits of consecutive positions, and compares two distributions over the same
// vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace swiftkv {

struct Logits {
  int rows = 0;               // positions
  int vocabulary = 0;         // tokens
  std::vector<float> values;  // [rows, vocabulary]

  std::span<const float> Row(int row) const {
    return std::span(values).subspan(static_cast<size_t>(row) * static_cast<size_t>(vocabulary),
                                     static_cast<size_t>(vocabulary));
  }
};

// All of these take logits before softmax, one row each, and need at least one token (TopGap two).
int32_t ArgMax(std::span<const float> row);
// Returns how far the best logit lies above the second best.
float TopGap(std::span<const float> row);
float MaxAbsDifference(std::span<const float> a, std::span<const float> b);
// Returns the standard deviation of a row, which says whether the row tells anything apart.
double Deviation(std::span<const float> row);
// Returns log softmax(row)[token], natural logarithm.
double LogProbability(std::span<const float> row, int32_t token);
// Returns KL(softmax(reference) || softmax(other)) in nats; never below 0.
double KlDivergence(std::span<const float> reference, std::span<const float> other);

// Gathers how one model's distributions differ from a reference's, position by position.
class DivergenceSummary {
 public:
  void Add(std::span<const float> reference, std::span<const float> other);
  // Adds all rows; computes on two threads, since a row of a large vocabulary takes milliseconds.
  void AddRows(const Logits& reference, const Logits& other);

  int64_t positions() const { return static_cast<int64_t>(rows_.size()); }
  double MeanKld() const;
  // Returns the KLD that `percent` of the positions do not pass, 0 < percent <= 100.
  double KldPercentile(double percent) const;
  // Returns the fraction of positions at which both have the same best token, 0..1.
  double SameTop1() const;

  // Positions at which the best tokens differ. There, the gap is how far apart the log
  // probabilities of the two candidates are, by the distribution that sets them further apart; 0
  // where none parted.
  int64_t Parted() const;
  double MeanGap() const;
  double WidestGap() const;

 private:
  struct Row {
    double divergence = 0.0;  // nats
    bool same_top1 = true;
    double gap = 0.0;  // nats
  };
  static Row Compare(std::span<const float> reference, std::span<const float> other);

  std::vector<Row> rows_;
};

}  // namespace swiftkv
