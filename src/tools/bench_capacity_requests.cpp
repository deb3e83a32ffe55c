// SPDX-License-Identifier: Apache-2.0
// Draws requests and reads an engine's figures while it serves them.
#include "tools/bench_capacity_requests.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "base/status_macros.h"
#include "engine/engine_thread.h"

namespace swiftkv {
namespace {

// The engine's figures are looked at this often, so that the end of the queue is seen in time.
constexpr std::chrono::milliseconds kGlance{5};

class PromptDraws {
 public:
  PromptDraws(std::uint64_t seed, int vocabulary_size)
      : random_(seed), vocabulary_size_(static_cast<std::uint64_t>(vocabulary_size)) {}

  void Append(int count, std::vector<std::int32_t>* tokens) {
    for (int i = 0; i < count; ++i) {
      tokens->push_back(static_cast<std::int32_t>(random_() % vocabulary_size_));
    }
  }

 private:
  std::mt19937_64 random_;
  const std::uint64_t vocabulary_size_;
};

// The value that a hundredth of the values passes at most.
double Percentile99(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(values.size())));
  return values[rank - 1];
}

class Serving {
 public:
  Serving(const std::vector<CapacityRequest>& requests,
          const std::function<bool(double done)>& progress)
      : requests_(requests), progress_(progress) {}

  Status SubmitAll(EngineThread* engine) {
    for (const CapacityRequest& asked : requests_) {
      EngineRequest request;
      request.prompt = asked.prompt;
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      request.max_tokens = asked.output;
      request.buffered_events = 0;
      tokens_ += static_cast<double>(asked.output);
      SKV_ASSIGN_OR_RETURN(TokenStream stream, engine->Submit(std::move(request)));
      streams_.push_back(std::move(stream));
    }
    return Status::Ok();
  }

  Status WaitForAll(EngineThread* engine) {
    for (TokenStream& stream : streams_) {
      TokenEvent event;
      for (;;) {
        const StreamOutcome outcome = stream.Next(&event, kGlance);
        SKV_RETURN_IF_ERROR(Look(*engine));
        if (outcome == StreamOutcome::kEnd) break;
      }
      SKV_RETURN_IF_ERROR(stream.status());
    }
    return Status::Ok();
  }

  CapacityFigures Figures(const EngineSnapshot& end) const {
    const EngineSnapshot& seen = saturated_.busy_seconds > 0 ? saturated_ : end;
    CapacityFigures figures;
    figures.max_concurrent = end.most_running;
    figures.mean_concurrent = seen.running_seconds / seen.busy_seconds;
    figures.tokens_per_s = static_cast<double>(seen.generated_tokens) / seen.busy_seconds;
    std::vector<double> latencies_ms;
    for (const TokenStream& stream : streams_) {
      latencies_ms.push_back(1000 * stream.usage().total_seconds);
    }
    figures.latency_mean_ms = std::accumulate(latencies_ms.begin(), latencies_ms.end(), 0.0) /
                              static_cast<double>(latencies_ms.size());
    figures.whole_mean_concurrent = end.running_seconds / end.busy_seconds;
    figures.whole_tokens_per_s = static_cast<double>(end.generated_tokens) / end.busy_seconds;
    figures.latency_p99_ms = Percentile99(latencies_ms);
    figures.seconds = end.busy_seconds;
    figures.saturated_seconds = saturated_.busy_seconds;
    figures.forward_share = end.forward_seconds / end.busy_seconds;
    figures.preemptions = end.preemptions;
    figures.cached_tokens = end.cached_tokens;
    figures.prompt_tokens = end.prompt_tokens;
    return figures;
  }

 private:
  Status Look(const EngineThread& engine) {
    const EngineSnapshot snapshot = engine.Snapshot();
    if (snapshot.waiting > 0) saturated_ = snapshot;
    return progress_(static_cast<double>(snapshot.generated_tokens) / tokens_)
               ? Status::Ok()
               : Status::Cancelled("the bench was stopped");
  }

  const std::vector<CapacityRequest>& requests_;
  const std::function<bool(double done)>& progress_;
  std::vector<TokenStream> streams_;
  double tokens_ = 0;         // to be generated
  EngineSnapshot saturated_;  // the last one in which somebody waited
};

}  // namespace

Result<std::vector<CapacityRequest>> MakeCapacityRequests(const BenchCapacityOptions& options,
                                                          int vocabulary_size) {
  SKV_ASSIGN_OR_RETURN(const LengthDistribution distribution, FindLengths(options.lengths));
  const auto seed = static_cast<std::uint64_t>(options.seed);
  PromptDraws draws(seed, vocabulary_size);
  std::vector<std::int32_t> shared;
  draws.Append(options.shared_tokens, &shared);
  const int room = options.max_length - options.shared_tokens;
  std::vector<CapacityRequest> requests;
  for (const RequestLengths& drawn : DrawLengths(distribution, options.requests, seed)) {
    const int prompt = std::min(drawn.prompt, room - 1);
    CapacityRequest request;
    request.prompt = shared;
    draws.Append(prompt, &request.prompt);
    request.output = std::min(drawn.output, room - prompt);
    requests.push_back(std::move(request));
  }
  return requests;
}

Result<CapacityFigures> ServeCapacityRequests(const EngineParts& parts, EngineLimits limits,
                                              const std::vector<CapacityRequest>& requests,
                                              const std::function<bool(double done)>& progress) {
  limits.max_queue = static_cast<int>(requests.size());
  SKV_ASSIGN_OR_RETURN(const std::unique_ptr<EngineThread> engine,
                       EngineThread::Start(parts, limits));
  Serving serving(requests, progress);
  SKV_RETURN_IF_ERROR(serving.SubmitAll(engine.get()));
  SKV_RETURN_IF_ERROR(serving.WaitForAll(engine.get()));
  engine->Shutdown();
  return serving.Figures(engine->Snapshot());
}

}  // namespace swiftkv
