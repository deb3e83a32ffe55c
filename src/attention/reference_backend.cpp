// SPDX-License-Identifier: Apache-2.0
// Computes attention the obvious way, in double, from decoded pages.
#include "attention/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "attention/shape_check.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

class ReferencePlan final : public AttentionPlan {
 public:
  std::size_t scratch_bytes() const override { return 0; }
  bool needs_merge() const override { return false; }
};

// All slots of a sequence for one kv head, decoded.
struct DecodedHead {
  std::vector<float> keys;              // [slots, head_dim]
  std::vector<float> values;            // [slots, head_dim]
  std::vector<std::int64_t> positions;  // [slots]
  std::vector<std::size_t> indices;     // [slots] among the slots of all runs, of all heads
};

void DecodePage(const PageRun& run, int page, int kv_head, int head_dim, DecodedHead* decoded) {
  const int count = std::min(kPageTokens, run.num_tokens - page * kPageTokens);
  const std::size_t first = decoded->positions.size();
  const auto dim = static_cast<std::size_t>(head_dim);
  decoded->keys.resize((first + count) * dim);
  decoded->values.resize((first + count) * dim);
  const std::byte* bytes = run.Page(page, kv_head);
  run.format.key->Decode(KeyPlane(run.format, run.layout, head_dim, bytes), {0, count},
                         decoded->keys.data() + first * dim, dim);
  run.format.value->Decode(ValuePlane(run.format, run.layout, head_dim, bytes), {0, count},
                           decoded->values.data() + first * dim, dim);
  for (int t = 0; t < count; ++t) {
    const int slot = page * kPageTokens + t;
    decoded->positions.push_back(run.positions != nullptr ? run.positions[slot]
                                                          : run.first_position + slot);
  }
}

DecodedHead DecodeHead(const AttentionSequence& sequence, int kv_head, int head_dim) {
  DecodedHead decoded;
  std::size_t run_start = 0;
  for (const PageRun& run : sequence.runs) {
    if (run.first_head <= kv_head && kv_head < run.end_head) {
      for (int page = 0; page * kPageTokens < run.num_tokens; ++page) {
        DecodePage(run, page, kv_head, head_dim, &decoded);
      }
      for (int slot = 0; slot < run.num_tokens; ++slot) {
        decoded.indices.push_back(run_start + static_cast<std::size_t>(slot));
      }
    }
    run_start += static_cast<std::size_t>(run.num_tokens);
  }
  return decoded;
}

// Scores of one query vector; -inf for slots that a row at `position` does not see.
std::vector<double> Scores(const AttentionShape& shape, const float* query, std::int64_t position,
                           const DecodedHead& head) {
  std::vector<double> scores(head.positions.size(), -std::numeric_limits<double>::infinity());
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const std::int64_t age = position - head.positions[j];
    if (age < 0 || (shape.window > 0 && age >= shape.window)) continue;
    const float* key = head.keys.data() + j * static_cast<std::size_t>(shape.head_dim);
    double dot = 0;
    for (int i = 0; i < shape.head_dim; ++i) dot += static_cast<double>(query[i]) * key[i];
    scores[j] = shape.scale * dot;
    if (shape.softcap > 0) scores[j] = shape.softcap * std::tanh(scores[j] / shape.softcap);
  }
  return scores;
}

// Returns log(sum of exp(scores)); -inf where no slot is visible.
double LogSumExp(const std::vector<double>& scores) {
  double max = -std::numeric_limits<double>::infinity();
  for (const double score : scores) max = std::max(max, score);
  if (std::isinf(max)) return max;
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - max);
  return max + std::log(sum);
}

// Writes one query vector's output.
void WeighValues(const std::vector<double>& scores, double lse, const DecodedHead& head,
                 std::span<float> out) {
  std::vector<double> weighted(out.size());
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (std::isinf(scores[j])) continue;
    const double weight = std::exp(scores[j] - lse);
    const float* value = head.values.data() + j * weighted.size();
    for (std::size_t i = 0; i < weighted.size(); ++i) weighted[i] += weight * value[i];
  }
  std::copy(weighted.begin(), weighted.end(), out.begin());
}

// Calls run(sequence index, kv head) for this thread's share of them.
template <typename Run>
void ForEachHead(const AttentionBatch& batch, const AttentionTeam& team, const Run& run) {
  int job = 0;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    for (int head = 0; head < batch.shape.num_kv_heads; ++head) {
      if (job++ % team.num_threads == team.thread) run(s, head);
    }
  }
}

// Calls run(row, position, index of the query vector in [rows, num_heads]) in the order of rows.
template <typename Run>
void ForEachVector(const AttentionShape& shape, const AttentionSequence& sequence, int kv_head,
                   const Run& run) {
  const int group = shape.num_heads / shape.num_kv_heads;
  for (int row = 0; row < sequence.num_rows; ++row) {
    for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      run(sequence.first_position + row,
          static_cast<std::size_t>(sequence.first_row + row) * shape.num_heads + h);
    }
  }
}

}  // namespace

Status ReferenceBackend::Serves(const AttentionShape& shape, const PageFormat& format) const {
  SKV_RETURN_IF_ERROR(CheckShape(shape));
  for (const PageCodec* codec : {format.key, format.value}) {
    if (codec->ServesHeadDim(shape.head_dim)) continue;
    return Status::Unsupported(std::string("pages of ") + codec->info().name +
                               " have no head size " + std::to_string(shape.head_dim));
  }
  return Status::Ok();
}

std::unique_ptr<AttentionPlan> ReferenceBackend::Plan(const AttentionBatch&) const {
  return std::make_unique<ReferencePlan>();
}

void ReferenceBackend::Partial(const AttentionBatch& batch, const AttentionPlan&,
                               const AttentionTeam& team) const {
  const AttentionShape& shape = batch.shape;
  ForEachHead(batch, team, [&](std::size_t s, int kv_head) {
    const AttentionSequence& sequence = batch.sequences[s];
    const DecodedHead head = DecodeHead(sequence, kv_head, shape.head_dim);
    const auto dim = static_cast<std::size_t>(shape.head_dim);
    ForEachVector(shape, sequence, kv_head, [&](std::int64_t position, std::size_t vector) {
      const std::vector<double> scores = Scores(shape, batch.q + vector * dim, position, head);
      const double lse = LogSumExp(scores);
      WeighValues(scores, lse, head, {batch.out + vector * dim, dim});
      if (batch.lse != nullptr) batch.lse[vector] = static_cast<float>(lse);
    });
  });
}

void ReferenceBackend::Merge(const AttentionBatch&, const AttentionPlan&,
                             const AttentionTeam&) const {}

void ReferenceBackend::Score(const AttentionBatch& batch, const AttentionPlan&,
                             const AttentionTeam& team) const {
  if (batch.sink == nullptr) return;
  const AttentionShape& shape = batch.shape;
  ForEachHead(batch, team, [&](std::size_t s, int kv_head) {
    const AttentionSequence& sequence = batch.sequences[s];
    const std::span<float> sums = batch.sink->sums[s];
    if (sums.empty()) return;
    const DecodedHead head = DecodeHead(sequence, kv_head, shape.head_dim);
    std::size_t slots = 0;
    for (const PageRun& run : sequence.runs) slots += static_cast<std::size_t>(run.num_tokens);
    std::vector<double> totals(head.positions.size());
    ForEachVector(shape, sequence, kv_head, [&](std::int64_t position, std::size_t vector) {
      const float* query = batch.q + vector * static_cast<std::size_t>(shape.head_dim);
      const std::vector<double> scores = Scores(shape, query, position, head);
      const double lse = LogSumExp(scores);
      for (std::size_t j = 0; j < scores.size(); ++j) {
        if (!std::isinf(scores[j])) totals[j] += std::exp(scores[j] - lse);
      }
    });
    for (std::size_t j = 0; j < totals.size(); ++j) {
      sums[static_cast<std::size_t>(kv_head) * slots + head.indices[j]] =
          static_cast<float>(totals[j]);
    }
  });
}

Result<std::unique_ptr<AttentionBackend>> MakeReferenceBackend(std::string_view isa) {
  if (isa != "auto" && isa != "portable") {
    return Status::InvalidArgument("the reference backend has one form: auto or portable, not " +
                                   std::string(isa));
  }
  return std::unique_ptr<AttentionBackend>(std::make_unique<ReferenceBackend>());
}

}  // namespace swiftkv
