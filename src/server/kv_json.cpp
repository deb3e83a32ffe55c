// SPDX-License-Identifier: Apache-2.0
// Writes the balance of bytes, formats and prefixes, each with its sum.
#include "server/kv_json.h"

#include "engine/segment_recipe.h"

namespace swiftkv {
namespace {

std::string NameOf(const KvFormat& format) {
  return format.key == format.value ? format.key : format.key + "/" + format.value;
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

// The first five add up to `mapped`.
Json BytesJson(const KvBalance& bytes) {
  return {{"live_private", bytes.live_private_bytes},
          {"live_shared", bytes.live_shared_bytes},
          {"cached", bytes.cached_bytes},
          {"free", bytes.free_bytes},
          {"metadata", bytes.metadata_bytes},
          {"mapped", bytes.mapped_bytes},
          {"peak", bytes.peak_bytes},
          {"limit", bytes.limit_bytes}};
}

Json FormatsJson(const std::vector<FormatUse>& formats) {
  Json list = Json::array();
  for (const FormatUse& use : formats) {
    list.push_back({{"format", NameOf(use.format)},
                    {"sequences", use.sequences},
                    {"tokens", use.tokens},
                    {"bytes", use.bytes},
                    {"f16_bytes", use.f16_bytes}});
  }
  return list;
}

Json PrefixesJson(const EngineSnapshot& now) {
  return {{"queried_tokens", now.prefixes.queried_tokens},
          {"hit_tokens", now.prefixes.hit_tokens},
          {"published_blocks", now.prefixes.published_blocks},
          {"evicted_blocks", now.prefixes.evicted_blocks},
          {"pinned_prefixes", now.pinned.prefixes},
          {"pinned_blocks", now.pinned.blocks}};
}

Json DescribedJson(const EngineSnapshot& now) {
  Json list = Json::array();
  if (now.described_segments == nullptr) return list;
  for (const SegmentDescription& one : *now.described_segments) {
    const RecipeFields recipe = ReadRecipe(one.recipe);
    Json formats = Json::array();
    for (const KvFormat& format : one.formats) formats.push_back(NameOf(format));
    list.push_back({{"policy", TextOrNull(recipe.policy)},
                    {"ratio", recipe.ratio ? Json(*recipe.ratio) : Json()},
                    {"budget_tokens", recipe.budget_tokens ? Json(*recipe.budget_tokens) : Json()},
                    {"kept_as", TextOrNull(recipe.kept_as)},
                    {"query_statistics", TextOrNull(recipe.statistics)},
                    {"asked_for", recipe.is_shared},
                    {"findable", one.findable},
                    {"format", NameOf(one.format)},
                    {"page_formats", formats},
                    {"tokens", one.end},
                    {"kept_tokens", one.kept_tokens},
                    {"bytes", one.bytes},
                    {"users", one.users},
                    {"hits", one.adoptions}});
  }
  return list;
}

// Compressed prefixes; their bytes are among the others by who holds them.
Json SegmentsJson(const EngineSnapshot& now) {
  return {{"list", DescribedJson(now)},
          {"segments", now.segments.segments},
          {"findable", now.segments.findable},
          {"idle", now.segments.idle},
          {"bytes", now.segments.page_bytes},
          {"compactions", now.compactions},
          {"forgotten_tokens", now.forgotten_tokens},
          {"adoptions", now.segments.adoptions},
          {"evictions", now.segments.evictions}};
}

double WasteFraction(const EngineReport& report) {
  const KvBalance& bytes = report.snapshot.balance;
  if (bytes.mapped_bytes == 0) return 0;
  const std::uint64_t waste =
      bytes.free_bytes + bytes.metadata_bytes + report.statistics.unfilled_bytes;
  return static_cast<double>(waste) / static_cast<double>(bytes.mapped_bytes);
}

}  // namespace

Json KvJson(const EngineReport& report, const std::string& kv_format) {
  const EngineSnapshot& now = report.snapshot;
  return {{"format", kv_format},
          {"bytes", BytesJson(now.balance)},
          {"unfilled_bytes", report.statistics.unfilled_bytes},
          {"waste_fraction", WasteFraction(report)},
          {"live_tokens", now.balance.live_tokens},
          {"capacity_tokens", report.statistics.capacity_tokens},
          {"formats", FormatsJson(report.statistics.formats)},
          {"running", now.running},
          {"waiting", now.waiting},
          {"paused", report.statistics.paused},
          {"finished_requests", now.finished_requests},
          {"preemptions", now.preemptions},
          {"prompt_tokens", now.prompt_tokens},
          {"cached_tokens", now.cached_tokens},
          {"generated_tokens", now.generated_tokens},
          {"prefixes", PrefixesJson(now)},
          {"compressed", SegmentsJson(now)}};
}

}  // namespace swiftkv
