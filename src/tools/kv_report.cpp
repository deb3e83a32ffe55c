// SPDX-License-Identifier: Apache-2.0
// Reads the balance of the cache and sets it beside what else the tokens could have taken.
#include "tools/kv_report.h"

#include <set>
#include <vector>

#include "base/process_mappings.h"
#include "base/process_memory.h"
#include "base/saturating.h"
#include "base/status_macros.h"
#include "engine/kept_formats.h"

namespace swiftkv {
namespace {

// Asks the kernel about the mappings in which the sequence's pages lie.
Status AddResidentPages(const GenerationSession& session, KvReport* report) {
  const std::vector<const std::byte*> bases = FrameBases(session);
  if (bases.empty()) return Status::Ok();
  SKV_ASSIGN_OR_RETURN(const std::vector<ProcessMapping> mappings, ReadMappings("/proc/self"));
  for (const std::byte* base : bases) {
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    for (const ProcessMapping& mapping : mappings) {
      if (address < mapping.begin || address >= mapping.end) continue;
      report->pages_resident_bytes += mapping.resident_bytes;
      report->huge_page_bytes += mapping.huge_page_bytes;
    }
  }
  return Status::Ok();
}

}  // namespace

std::vector<const std::byte*> FrameBases(const GenerationSession& session) {
  if (!session.sequence()) return {};
  std::vector<PageRun> runs;
  for (int layer = 0; layer < session.cache().num_layers(); ++layer) {
    session.cache().AppendRuns(*session.sequence(), layer, 0, &runs);
  }
  std::set<const std::byte*> bases;
  for (const PageRun& run : runs) bases.insert(run.base);
  return {bases.begin(), bases.end()};
}

Result<KvReport> MakeKvReport(const ModelStack& stack) {
  const KvCache& cache = *stack.cache;
  KvReport report;
  report.format = cache.format_name();
  report.is_automatic = stack.kv_choice.is_automatic;
  report.mean_kld = stack.kv_choice.mean_kld;
  report.policy = stack.forgetting == nullptr ? kNoPolicy : stack.forgetting->name;
  report.ratio = stack.asked_forgetting.ratio;
  report.budget = stack.asked_forgetting.budget;
  report.kept_as = stack.forgetting == nullptr ? kKeptAsStored : stack.forgetting->kept_as;
  if (stack.forgetting != nullptr && stack.forgetting->needs_statistics()) {
    report.query_statistics = stack.session->uses_figures() ? "model" : "own";
  }
  report.quality = QualityName(cache.format_quality());
  report.bytes_per_token = cache.bytes_per_token();
  if (stack.session->sequence()) {
    report.bits_per_value = cache.bits_per_value(*stack.session->sequence());
  }
  report.logical_tokens = stack.session->Length();
  report.kept_tokens = report.logical_tokens;

  const std::vector<LayerShape> layers = stack.model->layer_shapes();
  const KvFootprint& footprint = stack.session->footprint();
  report.bytes_used = footprint.FilledBytes(report.logical_tokens);
  if (stack.session->sequence() && cache.SegmentEnd(*stack.session->sequence()) > 0) {
    report.quality = QualityName(Quality::kAny);
    report.kept_tokens = cache.KeptTokens(*stack.session->sequence());
    // What is kept fills its pages; only the newest one may have room.
    const std::uint64_t room =
        SaturatingSubtract(footprint.PageBytes(report.logical_tokens), report.bytes_used);
    report.bytes_used = SaturatingSubtract(cache.HeldBytes(*stack.session->sequence()), room);
  }
  SKV_ASSIGN_OR_RETURN(const KvFootprint exact, KvFootprint::Make(layers, "f16", "f16"));
  report.exact_bytes = exact.FilledBytes(report.logical_tokens);
  report.contiguous_tokens = stack.model->context();
  report.contiguous_bytes = cache.contiguous_bytes(report.contiguous_tokens);

  report.balance = cache.Balance();
  report.bytes_allocated = report.balance.mapped_bytes;
  report.peak_bytes = report.balance.peak_bytes;
  if (report.bytes_allocated > 0) {
    report.waste_fraction =
        1.0 - static_cast<double>(report.bytes_used) / static_cast<double>(report.bytes_allocated);
  }
  SKV_RETURN_IF_ERROR(AddResidentPages(*stack.session, &report));
  report.model = stack.model->memory();
  report.key_guide_bytes = stack.key_guide_bytes;
  report.process_resident_before_bytes = stack.resident_before_cache;
  SKV_ASSIGN_OR_RETURN(report.process_resident_after_bytes, ProcessResidentBytes());
  return report;
}

}  // namespace swiftkv
