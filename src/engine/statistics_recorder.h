// SPDX-License-Identifier: Apache-2.0
// Fills an engine's statistics as things happen to requests. Layer: engine.
//
// Owner: the engine's thread.
#pragma once

#include <optional>

#include "engine/active_request.h"
#include "engine/engine_statistics.h"

namespace swiftkv {

class StatisticsRecorder {
 public:
  // `layers` and `format`: of the model and of requests that name none; `limit_bytes`: the bound.
  StatisticsRecorder(int context, std::span<const LayerShape> layers, const KvFormat& format,
                     std::uint64_t limit_bytes);

  // Called in the order in which they happen to a request.
  void GotFirstPlace(const ActiveRequest& request);
  // More of its prompt was found in the cache, after its first place.
  void FoundMore(const ActiveRequest& request, std::size_t tokens);
  // A token was appended to the choice.
  void DrewToken(const ActiveRequest& request, ActiveChoice* choice);
  void Paused() { ++statistics_.stream_pauses; }
  // `choice.finish` says how; none: the request failed.
  void EndedChoice(const ActiveRequest& request, const ActiveChoice& choice);
  // All of its choices have.
  void EndedRequest(const ActiveRequest& request);

  void EndedStep(std::size_t rows) { statistics_.step_tokens.Observe(static_cast<double>(rows)); }
  void FailedStep() { ++statistics_.failed_steps; }

  // Make what is told of this moment anew: first BeginMoment, then what there is.
  void BeginMoment();
  void IsPaused() { ++statistics_.paused; }  // one request
  // A choice that has a sequence. `held_bytes`: of its pages, where it has forgotten something.
  void Holds(const ActiveRequest& request, const ActiveChoice& choice,
             std::optional<std::uint64_t> held_bytes);

  const EngineStatistics& statistics() const { return statistics_; }

 private:
  FormatUse* UseOf(const KvFormat& format);
  void Measure(const ActiveRequest& request, const ActiveChoice& choice);

  EngineStatistics statistics_;
  std::optional<KvFootprint> f16_;  // none where f16 does not serve the model
};

}  // namespace swiftkv
