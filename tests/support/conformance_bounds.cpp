// SPDX-License-Identifier: Apache-2.0
// Compares logits row by row.
#include "support/conformance_bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

namespace swiftkv {

float LogitBound(TinyFamily family, const std::string& format) {
  if (format == "f32") return family == TinyFamily::kGemma3 ? 2e-3F : 1e-4F;
  return family == TinyFamily::kGemma3 ? 4e-3F : 2e-3F;
}

bool RoundsFloats(const LinearBackendRow& row) {
  if (row.make == nullptr) return false;
  const std::unique_ptr<LinearBackend> backend = row.make();
  return backend->Serves({GGML_TYPE_F32, 64, 64}) && backend->PreparedBytes(1, 64) > 0;
}

void ExpectLogitsNear(const Logits& oracle, const Logits& ours, float bound,
                      const std::string& what) {
  ASSERT_EQ(oracle.rows, ours.rows) << what;
  ASSERT_EQ(oracle.vocabulary, ours.vocabulary) << what;
  int far_rows = 0;
  int first_far = -1;
  int flipped = 0;
  float largest = 0.0F;
  for (int row = 0; row < oracle.rows; ++row) {
    const float difference = MaxAbsDifference(oracle.Row(row), ours.Row(row));
    if (!(difference <= bound)) {
      if (far_rows == 0) first_far = row;
      ++far_rows;
    }
    // Once NaN, it stays: no number is larger.
    if (difference > largest || std::isnan(difference)) largest = difference;
    const bool clear = TopGap(oracle.Row(row)) > bound;
    if (clear && ArgMax(oracle.Row(row)) != ArgMax(ours.Row(row))) ++flipped;
  }
  testing::Test::RecordProperty("max difference, " + what, std::to_string(largest));
  EXPECT_EQ(far_rows, 0) << what << ": " << far_rows << " of " << oracle.rows
                         << " positions differ by more than " << bound << ", the first at "
                         << first_far << ", largest difference " << largest;
  EXPECT_EQ(flipped, 0) << what << ": the best token differs where the oracle is sure";
}

}  // namespace swiftkv
