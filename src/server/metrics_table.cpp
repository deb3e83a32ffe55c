// SPDX-License-Identifier: Apache-2.0
// Holds the rows. What the first half means is vLLM's; where ours counts otherwise, the help says
// how.
#include "server/metrics_table.h"

#include <ctime>
#include <iterator>

#include "base/process_memory.h"
#include "base/saturating.h"
#include "swiftkv/page_layout.h"

namespace swiftkv {
namespace {

using Sources = MetricSources;
using Samples = std::vector<MetricSample>;

constexpr MetricKind kCounter = MetricKind::kCounter;
constexpr MetricKind kGauge = MetricKind::kGauge;
constexpr MetricKind kHistogram = MetricKind::kHistogram;

template <typename Number>
Samples One(Number value) {
  return {{.value = static_cast<double>(value)}};
}

template <typename Number>
MetricSample Labelled(const char* name, std::string label, Number value) {
  return {.labels = {{name, std::move(label)}}, .value = static_cast<double>(value)};
}

// Makes the reader of one of the engine's histograms.
template <Histogram EngineStatistics::*kMember>
Samples Read(const Sources& sources) {
  return {{.histogram = &(sources.engine.statistics.*kMember)}};
}

std::uint64_t LiveBytes(const Sources& sources) {
  const KvBalance& bytes = sources.engine.snapshot.balance;
  return bytes.live_private_bytes + bytes.live_shared_bytes;
}

double Fraction(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Samples ReadCacheConfig(const Sources& sources) {
  const std::int64_t blocks = sources.engine.statistics.capacity_tokens / kPageTokens;
  return {{.labels = {{"block_size", std::to_string(kPageTokens)},
                      {"cache_dtype", sources.kv_format},
                      {"enable_prefix_caching", "True"},
                      {"num_gpu_blocks", std::to_string(blocks)},
                      {"num_cpu_blocks", std::to_string(blocks)}},
           .value = 1}};
}

Samples ReadEnds(const Sources& sources) {
  static constexpr const char* kReasons[] = {"stop", "length", "abort", "error"};
  static_assert(std::size(kReasons) == kChoiceEnds);
  Samples samples;
  for (std::size_t i = 0; i < kChoiceEnds; ++i) {
    samples.push_back(
        Labelled("finished_reason", kReasons[i], sources.engine.statistics.ended_choices[i]));
  }
  return samples;
}

Samples ReadBytes(const Sources& sources) {
  const KvBalance& bytes = sources.engine.snapshot.balance;
  return {Labelled("state", "live_private", bytes.live_private_bytes),
          Labelled("state", "live_shared", bytes.live_shared_bytes),
          Labelled("state", "cached", bytes.cached_bytes),
          Labelled("state", "free", bytes.free_bytes),
          Labelled("state", "metadata", bytes.metadata_bytes)};
}

Samples ReadWaste(const Sources& sources) {
  const KvBalance& bytes = sources.engine.snapshot.balance;
  const std::uint64_t waste =
      bytes.free_bytes + bytes.metadata_bytes + sources.engine.statistics.unfilled_bytes;
  return One(Fraction(waste, bytes.mapped_bytes));
}

std::string NameOf(const KvFormat& format) {
  return format.key == format.value ? format.key : format.key + "/" + format.value;
}

template <std::uint64_t FormatUse::*kMember>
Samples ReadFormats(const Sources& sources) {
  Samples samples;
  for (const FormatUse& use : sources.engine.statistics.formats) {
    samples.push_back(Labelled("kv_format", NameOf(use.format), use.*kMember));
  }
  return samples;
}

template <std::uint64_t FormatUse::*kMember>
std::uint64_t Sum(const Sources& sources) {
  std::uint64_t sum = 0;
  for (const FormatUse& use : sources.engine.statistics.formats) sum += use.*kMember;
  return sum;
}

// A negative number says that the formats are wider than f16.
Samples ReadSavedByFormat(const Sources& sources) {
  return One(static_cast<double>(Sum<&FormatUse::f16_bytes>(sources)) -
             static_cast<double>(Sum<&FormatUse::bytes>(sources)));
}

Samples ReadSavedBySharing(const Sources& sources) {
  return One(SaturatingSubtract(Sum<&FormatUse::bytes>(sources), LiveBytes(sources)));
}

Samples ReadSegments(const Sources& sources) {
  const SegmentTotals& segments = sources.engine.snapshot.segments;
  return {Labelled("state", "used", segments.segments - segments.idle),
          Labelled("state", "idle", segments.idle)};
}

Samples ReadPrefixEnds(const Sources& sources) {
  Samples samples;
  for (std::size_t i = 0; i < kPrefixEnds; ++i) {
    samples.push_back(Labelled("reason", PrefixEndName(static_cast<PrefixEnd>(i)),
                               sources.engine.statistics.prefix_ends[i]));
  }
  return samples;
}

Samples ReadRefusals(const Sources& sources) {
  Samples samples;
  for (std::size_t i = 0; i < kRefusals; ++i) {
    samples.push_back(Labelled("reason", RefusalName(static_cast<Refusal>(i)),
                               sources.server.refused_requests[i]));
  }
  return samples;
}

Samples ReadResidentMemory(const Sources& /*sources*/) {
  const Result<std::uint64_t> bytes = ProcessResidentBytes();
  return bytes.ok() ? One(*bytes) : Samples{};
}

using Statistics = EngineStatistics;

constexpr MetricRow kRows[] = {
    {"vllm:num_requests_running", kGauge, "", "", "Choices that have a place in the cache",
     [](const Sources& s) { return One(s.engine.snapshot.running); }},
    {"vllm:num_requests_waiting", kGauge, "", "",
     "Choices that wait for a place, preempted ones included",
     [](const Sources& s) { return One(s.engine.snapshot.waiting); }},
    {"vllm:kv_cache_usage_perc", kGauge, "1 is full", "",
     "Part of the cache's bound that running choices hold; blocks that are only cached are given "
     "away on demand and count as free",
     [](const Sources& s) {
       return One(Fraction(LiveBytes(s), s.engine.snapshot.balance.limit_bytes));
     }},
    {"vllm:prefix_cache_queries_total", kCounter, "tokens", "",
     "Tokens of prompts that looked for a prefix, counted once a request, at its first place",
     [](const Sources& s) { return One(s.engine.statistics.prefix_queried_tokens); }},
    {"vllm:prefix_cache_hits_total", kCounter, "tokens", "",
     "Of these, tokens found in the cache and not computed",
     [](const Sources& s) { return One(s.engine.statistics.prefix_hit_tokens); }},
    {"vllm:num_preemptions_total", kCounter, "", "",
     "Times that a choice gave its place up for want of memory; it went on later without a loss",
     [](const Sources& s) { return One(s.engine.snapshot.preemptions); }},
    {"vllm:cache_config_info", kGauge, "",
     "block_size, cache_dtype, enable_prefix_caching, num_gpu_blocks, num_cpu_blocks",
     "Always 1; both numbers of blocks are those of 16 tokens in the server's own format that fit "
     "into the bound",
     ReadCacheConfig},
    {"vllm:prompt_tokens_total", kCounter, "tokens", "",
     "Tokens of prompts of requests that got a place, cached ones included, once a request",
     [](const Sources& s) { return One(s.engine.snapshot.prompt_tokens); }},
    {"vllm:prompt_tokens_cached_total", kCounter, "tokens", "", "Of these, found in the cache",
     [](const Sources& s) { return One(s.engine.snapshot.cached_tokens); }},
    {"vllm:generation_tokens_total", kCounter, "tokens", "",
     "Tokens of replies, without those that end a reply",
     [](const Sources& s) { return One(s.engine.snapshot.generated_tokens); }},
    {"vllm:request_success_total", kCounter, "", "finished_reason",
     "Choices that ended: stop, length (a cap, the context, the cache's memory), abort (withdrawn, "
     "or the client left), error",
     ReadEnds},
    {"vllm:iteration_tokens_total", kHistogram, "tokens", "", "Tokens computed in a step",
     Read<&Statistics::step_tokens>},
    {"vllm:time_to_first_token_seconds", kHistogram, "seconds", "",
     "From a request's arrival to the first token of a choice",
     Read<&Statistics::first_token_seconds>},
    {"vllm:inter_token_latency_seconds", kHistogram, "seconds", "",
     "Between two tokens of a choice", Read<&Statistics::token_gap_seconds>},
    {"vllm:time_per_output_token_seconds", kHistogram, "seconds", "",
     "The same under its older name", Read<&Statistics::token_gap_seconds>},
    {"vllm:request_time_per_output_token_seconds", kHistogram, "seconds", "",
     "Mean time between tokens of a choice that ended by stop or length, as all that follow, with "
     "two tokens or more",
     Read<&Statistics::seconds_per_token>},
    {"vllm:e2e_request_latency_seconds", kHistogram, "seconds", "",
     "From a request's arrival to the end of the choice", Read<&Statistics::total_seconds>},
    {"vllm:request_queue_time_seconds", kHistogram, "seconds", "",
     "From a request's arrival to its first place", Read<&Statistics::queue_seconds>},
    {"vllm:request_inference_time_seconds", kHistogram, "seconds", "",
     "From the first place to the last token", Read<&Statistics::inference_seconds>},
    {"vllm:request_prefill_time_seconds", kHistogram, "seconds", "",
     "From the first place to the first token", Read<&Statistics::prefill_seconds>},
    {"vllm:request_decode_time_seconds", kHistogram, "seconds", "",
     "From the first token to the last", Read<&Statistics::decode_seconds>},
    {"vllm:request_prompt_tokens", kHistogram, "tokens", "", "Length of the prompt",
     Read<&Statistics::prompt_tokens>},
    {"vllm:request_prefill_kv_computed_tokens", kHistogram, "tokens", "",
     "Of these, not found in the cache", Read<&Statistics::computed_prompt_tokens>},
    {"vllm:request_generation_tokens", kHistogram, "tokens", "", "Length of the reply",
     Read<&Statistics::generated_tokens>},
    {"vllm:request_max_num_generation_tokens", kHistogram, "tokens", "",
     "Length of the longest reply of a request, once a request", Read<&Statistics::longest_tokens>},
    {"vllm:request_params_max_tokens", kHistogram, "tokens", "",
     "Cap of the reply, where one is set", Read<&Statistics::asked_tokens>},
    {"vllm:request_params_n", kHistogram, "", "",
     "Choices of a request, once a request, at its first place", Read<&Statistics::choices>},

    {"swiftkv_kv_bytes", kGauge, "bytes", "state",
     "Mapped memory of the cache by what it is: live_private, live_shared (of two or more), cached "
     "(found by later prompts, reclaimable), free, metadata; together swiftkv_kv_mapped_bytes",
     ReadBytes},
    {"swiftkv_kv_mapped_bytes", kGauge, "bytes", "",
     "OS pages that the cache uses, as the kernel counts them",
     [](const Sources& s) { return One(s.engine.snapshot.balance.mapped_bytes); }},
    {"swiftkv_kv_peak_bytes", kGauge, "bytes", "", "The most that it has used so far",
     [](const Sources& s) { return One(s.engine.snapshot.balance.peak_bytes); }},
    {"swiftkv_kv_limit_bytes", kGauge, "bytes", "", "The bound that it never passes",
     [](const Sources& s) { return One(s.engine.snapshot.balance.limit_bytes); }},
    {"swiftkv_kv_waste_fraction", kGauge, "", "",
     "Part of the mapped memory that holds no token: free, metadata and slots not filled yet",
     ReadWaste},
    {"swiftkv_kv_saved_by_sharing_bytes", kGauge, "bytes", "",
     "What running choices would hold on top if none shared pages with another",
     ReadSavedBySharing},
    {"swiftkv_kv_saved_by_format_bytes", kGauge, "bytes", "",
     "What they would hold on top of that in f16; below 0 where the format is wider",
     ReadSavedByFormat},
    {"swiftkv_kv_saved_by_forgetting_bytes", kGauge, "bytes", "",
     "What they would hold on top of that if nothing had been forgotten",
     [](const Sources& s) { return One(Sum<&FormatUse::forgotten_bytes>(s)); }},
    {"swiftkv_kv_sequence_bytes", kGauge, "bytes", "kv_format",
     "Pages that running choices hold, by format, shared ones counted for each",
     ReadFormats<&FormatUse::bytes>},
    {"swiftkv_kv_sequence_tokens", kGauge, "tokens", "kv_format", "Tokens in these, likewise",
     ReadFormats<&FormatUse::tokens>},
    {"swiftkv_kv_sequences", kGauge, "", "kv_format", "How many there are",
     ReadFormats<&FormatUse::sequences>},
    {"swiftkv_kv_returned_bytes_total", kCounter, "bytes", "",
     "Memory of pages that was given back to the system",
     [](const Sources& s) { return One(s.engine.snapshot.balance.returned_bytes); }},
    {"swiftkv_compactions_total", kCounter, "", "",
     "Times that a sequence's cache was reduced to what a policy keeps",
     [](const Sources& s) { return One(s.engine.snapshot.compactions); }},
    {"swiftkv_forgotten_tokens_total", kCounter, "tokens", "",
     "Tokens dropped by these, summed over the kv heads of all layers",
     [](const Sources& s) { return One(s.engine.snapshot.forgotten_tokens); }},
    {"swiftkv_compaction_seconds_total", kCounter, "seconds", "",
     "Time in these: scoring, planning and moving what is kept",
     [](const Sources& s) { return One(s.engine.snapshot.compaction_seconds); }},
    {"swiftkv_segments", kGauge, "", "state",
     "Compressed prefixes in the cache: used by running choices, or idle (kept for later ones, "
     "reclaimable)",
     ReadSegments},
    {"swiftkv_segment_bytes", kGauge, "bytes", "", "Pages of these, each counted once",
     [](const Sources& s) { return One(s.engine.snapshot.segments.page_bytes); }},
    {"swiftkv_segment_adoptions_total", kCounter, "", "",
     "Times that a choice started from a compressed prefix that was there",
     [](const Sources& s) { return One(s.engine.snapshot.segments.adoptions); }},
    {"swiftkv_segment_evictions_total", kCounter, "", "",
     "Compressed prefixes that went because memory was wanted",
     [](const Sources& s) { return One(s.engine.snapshot.segments.evictions); }},
    {"swiftkv_prefix_ends_total", kCounter, "", "reason",
     "Requests, at their first token, by why no more of the prompt was found: whole_prompt, "
     "never_seen, token_differs, salt (another tenant's), quality, evicted, not_shared",
     ReadPrefixEnds},
    {"swiftkv_prefix_published_blocks_total", kCounter, "blocks", "", "Blocks made findable",
     [](const Sources& s) { return One(s.engine.snapshot.prefixes.published_blocks); }},
    {"swiftkv_prefix_pinned_blocks", kGauge, "blocks", "", "Blocks kept from eviction for a time",
     [](const Sources& s) { return One(s.engine.snapshot.pinned.blocks); }},
    {"swiftkv_prefix_evicted_blocks_total", kCounter, "blocks", "",
     "Blocks that are findable no longer because memory was wanted",
     [](const Sources& s) { return One(s.engine.snapshot.prefixes.evicted_blocks); }},
    {"swiftkv_requests_finished_total", kCounter, "", "", "Requests that ended, in whatever way",
     [](const Sources& s) { return One(s.engine.snapshot.finished_requests); }},
    {"swiftkv_requests_refused_total", kCounter, "", "reason",
     "HTTP requests answered with an error and no work: invalid, unauthorized, not_found, timeout, "
     "too_large, queue_full, stopping, other",
     ReadRefusals},
    {"swiftkv_choices_cancelled_total", kCounter, "", "", "Choices withdrawn, by whom ever",
     [](const Sources& s) {
       return One(
           s.engine.statistics.ended_choices[static_cast<std::size_t>(ChoiceEnd::kCancelled)]);
     }},
    {"swiftkv_stream_pauses_total", kCounter, "", "",
     "Times that a request stopped because its client did not read",
     [](const Sources& s) { return One(s.engine.statistics.stream_pauses); }},
    {"swiftkv_streams_paused", kGauge, "", "", "Requests that stand still for that reason",
     [](const Sources& s) { return One(s.engine.statistics.paused); }},
    {"swiftkv_steps_total", kCounter, "", "", "Forward passes",
     [](const Sources& s) { return One(s.engine.snapshot.steps); }},
    {"swiftkv_failed_steps_total", kCounter, "", "", "Of these, ended with an error",
     [](const Sources& s) { return One(s.engine.statistics.failed_steps); }},
    {"swiftkv_forward_seconds_total", kCounter, "seconds", "", "Time in forward passes",
     [](const Sources& s) { return One(s.engine.snapshot.forward_seconds); }},
    {"swiftkv_busy_seconds_total", kCounter, "seconds", "", "The same with scheduling and sampling",
     [](const Sources& s) { return One(s.engine.snapshot.busy_seconds); }},
    {"swiftkv_connections", kGauge, "", "", "Open connections",
     [](const Sources& s) { return One(s.server.open_connections); }},
    {"swiftkv_connections_accepted_total", kCounter, "", "", "Connections served",
     [](const Sources& s) { return One(s.server.accepted_connections); }},
    {"swiftkv_connections_refused_total", kCounter, "", "",
     "Connections closed at once because --max-connections were open",
     [](const Sources& s) { return One(s.server.refused_connections); }},
    {"swiftkv_build_info", kGauge, "", "version", "Always 1",
     [](const Sources&) { return Samples{Labelled("version", SWIFTKV_VERSION, 1)}; }},
    {"process_cpu_seconds_total", kCounter, "seconds", "", "Processor time of the whole process",
     [](const Sources&) { return One(static_cast<double>(std::clock()) / CLOCKS_PER_SEC); }},
    {"process_resident_memory_bytes", kGauge, "bytes", "", "Memory of the whole process",
     ReadResidentMemory},
};

}  // namespace

const char* MetricKindName(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
  }
  return "unknown";
}

std::span<const MetricRow> MetricTable() { return kRows; }

}  // namespace swiftkv
