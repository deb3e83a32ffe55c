// SPDX-License-Identifier: Apache-2.0
// Implements the measurement of the engine.
#include "tools/bench_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "base/status_macros.h"
#include "engine/engine_thread.h"
#include "engine/kv_memory.h"
#include "tools/bench_parts.h"
#include "tools/bench_pass.h"

namespace swiftkv {
namespace {

using Clock = std::chrono::steady_clock;
using Times = std::vector<Clock::time_point>;

// How often the bench looks whether a measurement is over. Tokens are timed on the engine's thread.
constexpr std::chrono::milliseconds kGlance{2};

double Milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// A request and when its tokens came.
struct TimedRequest {
  TokenStream stream;
  std::shared_ptr<Times> tokens = std::make_shared<Times>();  // the engine's thread adds
};

double LongestGap(const Times& times, Clock::time_point from, Clock::time_point until) {
  double longest = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    if (times[i] < from || times[i - 1] > until) continue;
    longest = std::max(longest, Milliseconds(times[i] - times[i - 1]));
  }
  return longest;
}

template <typename Done>
void WaitUntil(const EngineThread& engine, Done done) {
  while (!done(engine.Snapshot())) std::this_thread::sleep_for(kGlance);
}

// The parts of steps from one snapshot to a later one.
void FillShares(const EngineSnapshot& from, const EngineSnapshot& to, EngineBatchRow* row) {
  const double busy = to.busy_seconds - from.busy_seconds;
  row->overhead = 1 - to.forward_seconds / to.busy_seconds;
  row->scheduling_share = (to.scheduling_seconds - from.scheduling_seconds) / busy;
  row->memory_share = (to.reserving_seconds - from.reserving_seconds) / busy;
  row->sampling_share = (to.sampling_seconds - from.sampling_seconds) / busy;
}

class EngineBench {
 public:
  EngineBench(const BenchEngineOptions& options, const EngineBenchProgress& progress)
      : options_(options), progress_(progress) {}

  Result<EngineBenchResult> Run();

 private:
  Status Load();
  Status CheckLength(int tokens) const;
  Status Tell(int done, const std::string& next) const;
  EngineRequest MakeRequest(std::vector<std::int32_t> prompt, int new_tokens) const;
  std::vector<std::int32_t> Prompt(int tokens, int shared, int variant) const;
  Result<TimedRequest> Submit(EngineThread* engine, EngineRequest request) const;
  Result<std::unique_ptr<EngineThread>> StartEngine(const BenchFormat& format) const;
  Result<EngineBatchRow> MeasureBatch(const BenchFormat& format);
  Result<EngineLateRow> MeasureLate(const BenchFormat& format);
  Result<double> FirstTokenAlone(const BenchFormat& format);

  const BenchEngineOptions& options_;
  const EngineBenchProgress& progress_;
  BenchParts parts_;
  std::unique_ptr<Vocabulary> vocabulary_;
  int measurements_ = 0;  // begun so far; each has a salt of its own
};

Status EngineBench::Tell(int done, const std::string& next) const {
  const auto formats = static_cast<int>(parts_.formats.size());
  const int all = options_.rounds * formats * (options_.late_prompt > 0 ? 2 : 1);
  return progress_(static_cast<double>(done) / all, next)
             ? Status::Ok()
             : Status::Cancelled("the bench was stopped");
}

Status EngineBench::CheckLength(int tokens) const {
  if (tokens <= parts_.model->context()) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("a prompt and its reply must fit into the context of {} tokens, not: {}",
                  parts_.model->context(), tokens));
}

Status EngineBench::Load() {
  SKV_ASSIGN_OR_RETURN(parts_, LoadBenchParts(options_.model, options_.formats));
  SKV_RETURN_IF_ERROR(
      CheckLength(options_.shared_tokens + options_.own_tokens + options_.new_tokens));
  SKV_RETURN_IF_ERROR(CheckLength(options_.late_prompt + 1));
  SKV_ASSIGN_OR_RETURN(vocabulary_, Vocabulary::Load(parts_.path));
  return OpenBenchCache(options_.memory, &parts_);
}

Result<std::unique_ptr<EngineThread>> EngineBench::StartEngine(const BenchFormat& format) const {
  const EngineParts parts = {.model = parts_.model.get(),
                             .vocabulary = vocabulary_.get(),
                             .cache = parts_.cache.get(),
                             .format = KvFormatOf(format)};
  const int places = options_.requests + 1;
  EngineLimits limits;
  limits.max_sequences = places;
  limits.max_queue = places;
  return EngineThread::Start(parts, limits);
}

std::vector<std::int32_t> EngineBench::Prompt(int tokens, int shared, int variant) const {
  const std::int64_t vocabulary = parts_.model->spec().vocab_size;
  std::vector<std::int32_t> prompt;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int64_t step = i < shared ? 0 : variant + 1;
    prompt.push_back(static_cast<std::int32_t>((i * 37 + step * 101) % vocabulary));
  }
  return prompt;
}

EngineRequest EngineBench::MakeRequest(std::vector<std::int32_t> prompt, int new_tokens) const {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.max_tokens = new_tokens;
  request.request_salt = std::to_string(measurements_);
  request.buffered_events = 0;
  return request;
}

Result<TimedRequest> EngineBench::Submit(EngineThread* engine, EngineRequest request) const {
  TimedRequest timed;
  request.on_ready = [tokens = timed.tokens] { tokens->push_back(Clock::now()); };
  SKV_ASSIGN_OR_RETURN(timed.stream, engine->Submit(std::move(request)));
  return timed;
}

Result<EngineBatchRow> EngineBench::MeasureBatch(const BenchFormat& format) {
  ++measurements_;
  SKV_ASSIGN_OR_RETURN(const auto engine, StartEngine(format));
  const auto count = static_cast<std::uint64_t>(options_.requests);
  const int length = options_.shared_tokens + options_.own_tokens;
  std::vector<TimedRequest> requests;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < options_.requests; ++i) {
    SKV_ASSIGN_OR_RETURN(TimedRequest request,
                         Submit(engine.get(), MakeRequest(Prompt(length, options_.shared_tokens, i),
                                                          options_.new_tokens)));
    requests.push_back(std::move(request));
  }
  EngineBatchRow row;
  row.format = format.name;
  EngineSnapshot all_generate;
  WaitUntil(*engine, [&](const EngineSnapshot& now) {
    const bool begins = all_generate.steps == 0 && now.generated_tokens >= 2 * count;
    if (begins && now.finished_requests == 0) all_generate = now;
    const std::uint64_t held = now.balance.live_private_bytes + now.balance.live_shared_bytes;
    row.kv_bytes = std::max(row.kv_bytes, static_cast<double>(held));
    return now.finished_requests == count;
  });
  engine->Shutdown();
  const EngineSnapshot end = engine->Snapshot();
  Clock::time_point last = start;
  for (const TimedRequest& request : requests) {
    SKV_RETURN_IF_ERROR(request.stream.status());
    const double ttft = request.stream.usage().first_token_seconds * 1e3;
    row.ttft_mean_ms += ttft / static_cast<double>(count);
    row.ttft_max_ms = std::max(row.ttft_max_ms, ttft);
    row.gap_max_ms =
        std::max(row.gap_max_ms, LongestGap(*request.tokens, start, Clock::time_point::max()));
    last = std::max(last, request.tokens->back());
  }
  row.seconds = Milliseconds(last - start) / 1e3;
  row.tokens_per_s = static_cast<double>(end.generated_tokens) / row.seconds;
  row.cached_tokens = static_cast<double>(end.cached_tokens);
  FillShares(all_generate, end, &row);
  SKV_ASSIGN_OR_RETURN(
      const KvFootprint footprint,
      KvFootprint::Make(parts_.model->layer_shapes(), format.format.key->info().name,
                        format.format.value->info().name));
  row.unshared_bytes = static_cast<double>(
      count * footprint.PageBytes(std::int64_t{length} + options_.new_tokens - 1));
  return row;
}

Result<double> EngineBench::FirstTokenAlone(const BenchFormat& format) {
  ++measurements_;
  SKV_ASSIGN_OR_RETURN(const auto engine, StartEngine(format));
  SKV_ASSIGN_OR_RETURN(
      const TimedRequest request,
      Submit(engine.get(), MakeRequest(Prompt(options_.late_prompt, 0, 0), /*new_tokens=*/1)));
  WaitUntil(*engine, [](const EngineSnapshot& now) { return now.finished_requests == 1; });
  engine->Shutdown();
  SKV_RETURN_IF_ERROR(request.stream.status());
  return request.stream.usage().first_token_seconds * 1e3;
}

Result<EngineLateRow> EngineBench::MeasureLate(const BenchFormat& format) {
  constexpr int kStreamPrompt = 16;
  constexpr std::uint64_t kBefore = 8;  // tokens of the stream before the prompt arrives
  EngineLateRow row;
  row.format = format.name;
  SKV_ASSIGN_OR_RETURN(row.ttft_alone_ms, FirstTokenAlone(format));
  ++measurements_;
  SKV_ASSIGN_OR_RETURN(const auto engine, StartEngine(format));
  SKV_ASSIGN_OR_RETURN(TimedRequest stream,
                       Submit(engine.get(), MakeRequest(Prompt(kStreamPrompt, 0, 1),
                                                        /*new_tokens=*/-1)));
  WaitUntil(*engine, [&](const EngineSnapshot& now) {
    return now.generated_tokens >= kBefore || now.finished_requests > 0;
  });
  const Clock::time_point arrival = Clock::now();
  SKV_ASSIGN_OR_RETURN(
      const TimedRequest late,
      Submit(engine.get(), MakeRequest(Prompt(options_.late_prompt, 0, 0), /*new_tokens=*/1)));
  WaitUntil(*engine, [&](const EngineSnapshot& now) {
    return now.finished_requests > 0 && late.stream.usage().total_seconds > 0;
  });
  engine->Shutdown();
  SKV_RETURN_IF_ERROR(late.stream.status());
  if (stream.tokens->back() < late.tokens->front()) {
    return Status::ResourceExhausted(
        "the stream ended before the long prompt had its first token; tokens of the stream: " +
        std::to_string(stream.tokens->size()));
  }
  row.ttft_ms = late.stream.usage().first_token_seconds * 1e3;
  row.gap_max_ms = LongestGap(*stream.tokens, arrival, late.tokens->front());
  return row;
}

template <typename Row>
double MedianOf(const std::vector<Row>& rows, double Row::*field) {
  std::vector<double> values;
  for (const Row& row : rows) values.push_back(row.*field);
  return Median(std::move(values));
}

EngineBatchRow MedianRow(const std::vector<EngineBatchRow>& rounds) {
  EngineBatchRow row;
  row.format = rounds.front().format;
  for (double EngineBatchRow::*field :
       {&EngineBatchRow::seconds, &EngineBatchRow::tokens_per_s, &EngineBatchRow::cached_tokens,
        &EngineBatchRow::ttft_mean_ms, &EngineBatchRow::ttft_max_ms, &EngineBatchRow::gap_max_ms,
        &EngineBatchRow::overhead, &EngineBatchRow::scheduling_share, &EngineBatchRow::memory_share,
        &EngineBatchRow::sampling_share, &EngineBatchRow::kv_bytes,
        &EngineBatchRow::unshared_bytes}) {
    row.*field = MedianOf(rounds, field);
  }
  return row;
}

EngineLateRow MedianRow(const std::vector<EngineLateRow>& rounds) {
  EngineLateRow row;
  row.format = rounds.front().format;
  for (double EngineLateRow::*field :
       {&EngineLateRow::gap_max_ms, &EngineLateRow::ttft_ms, &EngineLateRow::ttft_alone_ms}) {
    row.*field = MedianOf(rounds, field);
  }
  return row;
}

Result<EngineBenchResult> EngineBench::Run() {
  SKV_RETURN_IF_ERROR(Load());
  const std::size_t formats = parts_.formats.size();
  std::vector<std::vector<EngineBatchRow>> batches(formats);
  std::vector<std::vector<EngineLateRow>> late(formats);
  int done = 0;
  for (int round = 0; round < options_.rounds; ++round) {
    for (std::size_t i = 0; i < formats; ++i) {
      const BenchFormat& format = parts_.formats[i];
      SKV_RETURN_IF_ERROR(
          Tell(done++, fmt::format("{} requests, {}", options_.requests, format.name)));
      SKV_ASSIGN_OR_RETURN(EngineBatchRow batch, MeasureBatch(format));
      batches[i].push_back(std::move(batch));
      if (options_.late_prompt == 0) continue;
      SKV_RETURN_IF_ERROR(Tell(done++, "a long prompt beside a stream, " + format.name));
      SKV_ASSIGN_OR_RETURN(EngineLateRow row, MeasureLate(format));
      late[i].push_back(std::move(row));
    }
  }
  EngineBenchResult result;
  result.model = parts_.path;
  result.architecture = parts_.model->spec().architecture;
  result.threads = parts_.model->threads();
  result.chunk = parts_.model->max_batch_rows();
  for (const auto& rounds : batches) result.batches.push_back(MedianRow(rounds));
  for (const auto& rounds : late) {
    if (!rounds.empty()) result.late_prompts.push_back(MedianRow(rounds));
  }
  return result;
}

}  // namespace

Result<EngineBenchResult> RunEngineBench(const BenchEngineOptions& options,
                                         const EngineBenchProgress& progress) {
  return EngineBench(options, progress).Run();
}

}  // namespace swiftkv
