// SPDX-License-Identifier: Apache-2.0
// Writes views of memory as JSON objects.
#include <nlohmann/json.hpp>

#include "tools/kv_report_json.h"
#include "tools/memory_report.h"
#include "tools/options_json.h"

namespace swiftkv {
namespace {

using Json = nlohmann::ordered_json;

Json Limit(std::uint64_t bytes) { return bytes == CgroupMemory::kUnlimited ? Json() : Json(bytes); }

Json CgroupJson(const std::optional<CgroupMemory>& group) {
  if (!group) return Json();
  return {{"version", group->version},
          {"path", group->path},
          {"current_bytes", group->current_bytes},
          {"used_bytes", group->used_bytes},
          {"max_bytes", Limit(group->max_bytes)},
          {"high_bytes", Limit(group->high_bytes)},
          {"left_bytes", group->is_limited() ? Json(group->bytes_left()) : Json()},
          {"swap_bytes", group->swap_bytes ? Json(*group->swap_bytes) : Json()},
          {"swap_max_bytes", Limit(group->swap_max_bytes)}};
}

Json FiguresJson(const MappingFigures& figures) {
  return {{"mappings", figures.mappings},
          {"resident_bytes", figures.resident_bytes},
          {"proportional_bytes", figures.proportional_bytes},
          {"private_dirty_bytes", figures.private_dirty_bytes},
          {"huge_page_bytes", figures.huge_page_bytes},
          {"swap_bytes", figures.swap_bytes}};
}

Json KernelJson(const KernelView& view) {
  Json kinds = Json::object();
  for (std::size_t i = 0; i < kNumMappingKinds; ++i) {
    kinds[MappingKindName(static_cast<MappingKind>(i))] = FiguresJson(view.kinds[i]);
  }
  return {{"process",
           {{"pid", view.process_id},
            {"name", view.process.name},
            {"resident_bytes", view.process.resident_bytes},
            {"peak_resident_bytes", view.process.peak_bytes},
            {"proportional_bytes", view.total().proportional_bytes},
            {"swap_bytes", view.process.swap_bytes}}},
          {"kernel", kinds},
          {"cgroup", CgroupJson(view.cgroups.own)},
          {"tightest_cgroup", CgroupJson(view.cgroups.tightest)},
          {"machine",
           {{"total_bytes", view.machine.total_bytes},
            {"available_bytes", view.machine.available_bytes},
            {"swap_total_bytes", view.machine.swap_total_bytes},
            {"swap_free_bytes", view.machine.swap_free_bytes},
            {"huge_pages", view.machine.huge_pages}}}};
}

std::int64_t Difference(std::uint64_t kernel, std::uint64_t counted) {
  return static_cast<std::int64_t>(kernel) - static_cast<std::int64_t>(counted);
}

Json HeapJson(const HeapCounts& heap) {
  return {{"repacked_weights_bytes", heap.repacked_weights_bytes},
          {"packed_weights_bytes", heap.packed_weights_bytes},
          {"activation_bytes", heap.activation_bytes},
          {"key_guide_bytes", heap.key_guide_bytes},
          {"vocabulary_bytes", heap.vocabulary_bytes},
          {"kv_metadata_bytes", heap.kv_metadata_bytes},
          {"other_bytes", heap.other_bytes},
          {"kept_bytes", heap.kept_bytes}};
}

Json AutomaticJson(const AutomaticKvMemory& memory) {
  return {{"available_bytes", memory.available_bytes},
          {"weights_bytes", memory.weights_bytes},
          {"activation_bytes", memory.activation_bytes},
          {"headroom_bytes", memory.headroom_bytes},
          {"bytes", memory.bytes}};
}

}  // namespace

std::string KernelViewJson(const KernelView& view) { return JsonLine(KernelJson(view)); }

std::string MemoryViewJson(const MemoryView& view) {
  const KernelView& kernel = view.kernel;
  const auto resident = [&](MappingKind kind) { return kernel.of(kind).resident_bytes; };
  const std::uint64_t weights = view.report.model.mapped_weights_bytes;
  Json object = {
      {"model", view.model},
      {"kv", KvReportJson(view.report)},
      {"memory", MemoryReportJson(view.report)},
      {"counted",
       {{"kv_pages_bytes", view.counted_pages_bytes()},
        {"kv_metadata_bytes", view.counted_metadata_bytes()},
        {"weights_bytes", weights},
        {"heap_bytes", view.heap.total()},
        {"heap", HeapJson(view.heap)}}},
      {"difference",
       {{"kv_pages_bytes", Difference(resident(MappingKind::kPages), view.counted_pages_bytes())},
        {"kv_metadata_bytes",
         Difference(resident(MappingKind::kMetadata), view.counted_metadata_bytes())},
        {"weights_bytes", Difference(resident(MappingKind::kWeights), weights)},
        {"heap_bytes", Difference(resident(MappingKind::kHeap), view.heap.total())}}},
      {"automatic", AutomaticJson(view.automatic)}};
  object.update(KernelJson(kernel));
  return JsonLine(object);
}

}  // namespace swiftkv
