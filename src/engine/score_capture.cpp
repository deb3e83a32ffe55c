// SPDX-License-Identifier: Apache-2.0
// Decodes pages into rows in the order of their tokens' positions.
#include "engine/score_capture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace swiftkv {
namespace {

// One page's slots of which all that lie before the end are read.
struct Slots {
  const PageRun* run;
  int page;
  int count;
  std::size_t first;  // of the slots of all runs
};

std::int32_t PositionOf(const PageRun& run, int token) {
  if (run.positions != nullptr) return run.positions[token];
  return static_cast<std::int32_t>(run.first_position + token);
}

// Lists pages and the positions of their slots, run by run.
std::vector<Slots> ListSlots(const CaptureTask& task, std::vector<std::int32_t>* positions) {
  std::vector<Slots> slots;
  positions->clear();
  std::size_t before = 0;
  for (const PageRun& run : task.runs) {
    const std::size_t run_first = before;
    before += static_cast<std::size_t>(run.num_tokens);
    if (task.head < run.first_head || task.head >= run.end_head) continue;
    for (int first = 0; first < run.num_tokens; first += kPageTokens) {
      const int most = std::min(kPageTokens, run.num_tokens - first);
      int count = 0;
      while (count < most && PositionOf(run, first + count) < task.end) {
        positions->push_back(PositionOf(run, first + count));
        ++count;
      }
      if (count > 0) {
        slots.push_back(
            {&run, first / kPageTokens, count, run_first + static_cast<std::size_t>(first)});
      }
      if (count < most) break;  // positions of a run ascend
    }
  }
  return slots;
}

// Returns the row that each listed entry belongs in; empty where they are in order already, which
// only heads with runs in several formats are not.
std::vector<std::size_t> RowsOf(std::vector<std::int32_t>* positions) {
  if (std::is_sorted(positions->begin(), positions->end())) return {};
  std::vector<std::size_t> order(positions->size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&positions](std::size_t a, std::size_t b) {
    return (*positions)[a] < (*positions)[b];
  });
  std::vector<std::size_t> rows(order.size());
  for (std::size_t row = 0; row < order.size(); ++row) rows[order[row]] = row;
  std::sort(positions->begin(), positions->end());
  return rows;
}

float Norm(const float* row, std::size_t dim) {
  double sum = 0;
  for (std::size_t i = 0; i < dim; ++i) sum += static_cast<double>(row[i]) * row[i];
  return static_cast<float>(std::sqrt(sum));
}

}  // namespace

void CaptureHead(const CaptureTask& task, HeadCapture* capture) {
  const auto dim = static_cast<std::size_t>(task.head_dim);
  const std::vector<Slots> slots = ListSlots(task, &capture->positions);
  const std::vector<std::size_t> rows = RowsOf(&capture->positions);
  const std::size_t tokens = capture->positions.size();
  capture->keys.resize(task.needs.keys ? tokens * dim : 0);
  capture->value_norms.resize(task.needs.value_norms ? tokens : 0);
  capture->slots.resize(tokens);
  std::vector<float> page_rows(kPageTokens * dim);
  std::size_t entry = 0;
  for (const Slots& part : slots) {
    const PageRun& run = *part.run;
    const std::byte* const page = run.Page(part.page, task.head);
    const SlotRange range = {.first_slot = 0, .count = part.count};
    const auto row_of = [&](int slot) {
      const std::size_t index = entry + static_cast<std::size_t>(slot);
      return rows.empty() ? index : rows[index];
    };
    for (int slot = 0; slot < part.count; ++slot) {
      capture->slots[row_of(slot)] = part.first + static_cast<std::size_t>(slot);
    }
    if (task.needs.keys) {
      const PlaneView plane = KeyPlane(run.format, run.layout, task.head_dim, page);
      run.format.key->Decode(plane, range, page_rows.data(), dim);
      for (int slot = 0; slot < part.count; ++slot) {
        std::copy_n(page_rows.data() + static_cast<std::size_t>(slot) * dim, dim,
                    capture->keys.data() + row_of(slot) * dim);
      }
    }
    if (task.needs.value_norms) {
      const PlaneView plane = ValuePlane(run.format, run.layout, task.head_dim, page);
      run.format.value->Decode(plane, range, page_rows.data(), dim);
      for (int slot = 0; slot < part.count; ++slot) {
        capture->value_norms[row_of(slot)] =
            Norm(page_rows.data() + static_cast<std::size_t>(slot) * dim, dim);
      }
    }
    entry += static_cast<std::size_t>(part.count);
  }
  SKV_CHECK(entry == tokens);
}

}  // namespace swiftkv
