// SPDX-License-Identifier: Apache-2.0
// Implements slices.
#include "engine/compaction_stage.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "engine/forgetting_progress.h"
#include "model/language_model.h"

namespace swiftkv {
namespace {

using Clock = std::chrono::steady_clock;

// Of the time that a stream may wait, the step itself takes most.
constexpr double kSliceSeconds = 0.3 * kStallSeconds;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

CompactionStage::CompactionStage(Roster* roster, KvCache* cache, const LanguageModel* model)
    : roster_(roster), cache_(cache), model_(model), team_(model->threads()) {}

// Where the cache has no room even so, places of others are taken as for any rows. Who goes first
// takes its room, or goes on with all that it has.
Result<CompactionStage::Progress> CompactionStage::Compact(const Seat& seat) {
  ForgettingState& state = seat.choice->forgetting;
  const Clock::time_point start = Clock::now();
  for (;;) {
    const Result<std::optional<CompactionOutcome>> outcome = state.job->CompactSome(cache_);
    if (outcome.ok()) {
      const bool done = outcome->has_value();
      roster_->Compacted(seat, outcome->value_or(CompactionOutcome{}), SecondsSince(start));
      return done ? Progress::kDone : Progress::kGoesOn;
    }
    if (outcome.status().code() != StatusCode::kResourceExhausted) return outcome.status();
    if (roster_->MakeRoomFor(seat)) continue;
    if (!roster_->IsAlone(seat)) return Progress::kWaits;
    roster_->Compacted(seat, {}, SecondsSince(start));
    return Progress::kDone;
  }
}

Result<CompactionStage::Progress> CompactionStage::Advance(const Seat& seat) {
  ForgettingState& state = seat.choice->forgetting;
  const Clock::time_point start = Clock::now();
  if (state.job == nullptr) {
    const CompactionTask task = {.sequence = *seat.choice->sequence,
                                 .rule = seat.request->forgetting,
                                 .model = model_,
                                 .queries = state.queries.get(),
                                 .uses_figures = seat.choice->query_origin == QueryOrigin::kModel,
                                 .for_sharing = seat.request->only_compresses()};
    state.job = std::make_unique<CompactionJob>(*cache_, task);
  }
  if (!state.job->scored()) {
    SKV_RETURN_IF_ERROR(state.job->Score(*cache_, &team_));
    roster_->Compacted(seat, {}, SecondsSince(start));
    return Progress::kGoesOn;
  }
  return Compact(seat);
}

std::vector<CompactedChoice> CompactionStage::Work() {
  const Clock::time_point start = Clock::now();
  std::vector<CompactedChoice> done;
  has_work_ = false;
  for (const Seat& seat : roster_->Compacting()) {
    Result<Progress> progress = Progress::kGoesOn;
    while (progress.ok() && *progress == Progress::kGoesOn) {
      if (SecondsSince(start) > kSliceSeconds) {
        has_work_ = true;
        return done;
      }
      // It may have lost its place to one before it.
      if (!IsCompacting(*seat.choice)) break;
      progress = Advance(seat);
    }
    if (progress.ok() && *progress != Progress::kDone) continue;
    AdvanceForgetting(*seat.request, static_cast<std::int64_t>(seat.choice->computed), seat.choice);
    done.push_back({seat, progress.status()});
  }
  return done;
}

}  // namespace swiftkv
