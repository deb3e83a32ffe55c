// SPDX-License-Identifier: Apache-2.0
// Sorts mappings by name and flags.
#include "tools/kernel_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/status_macros.h"
#include "cache/mapped_range.h"

namespace swiftkv {
namespace {

bool HoldsAny(const ProcessMapping& mapping, std::span<const std::byte* const> addresses) {
  return std::any_of(addresses.begin(), addresses.end(), [&](const std::byte* address) {
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    return number >= mapping.begin && number < mapping.end;
  });
}

// Models are the only files that are mapped to be shared; the C library's own lie in /usr.
bool IsModelFile(const ProcessMapping& mapping) {
  return mapping.is_file() && mapping.permissions == "r--s" && !mapping.name.starts_with("/usr/");
}

Result<KernelView> View(const std::string& process, std::span<const std::byte* const> frame_bases) {
  KernelView view;
  SKV_ASSIGN_OR_RETURN(view.process, ReadProcessMemory("/proc/" + process));
  SKV_ASSIGN_OR_RETURN(const std::vector<ProcessMapping> mappings,
                       ReadMappings("/proc/" + process));
  for (const ProcessMapping& mapping : mappings) {
    view.kinds[static_cast<std::size_t>(KindOf(mapping, frame_bases))].Add(mapping);
  }
  view.cgroups = ReadCgroups("", process);
  view.machine = ReadMachineMemory();
  return view;
}

}  // namespace

const char* MappingKindName(MappingKind kind) {
  constexpr std::array<const char*, kNumMappingKinds> kNames = {"kv_pages", "kv_metadata",
                                                                "weights", "heap", "program"};
  return kNames[static_cast<std::size_t>(kind)];
}

void MappingFigures::Add(const ProcessMapping& mapping) {
  ++mappings;
  resident_bytes += mapping.resident_bytes;
  proportional_bytes += mapping.proportional_bytes;
  private_dirty_bytes += mapping.private_dirty_bytes;
  huge_page_bytes += mapping.huge_page_bytes;
  swap_bytes += mapping.swap_bytes;
}

MappingFigures KernelView::total() const {
  MappingFigures total;
  for (const MappingFigures& kind : kinds) {
    total.mappings += kind.mappings;
    total.resident_bytes += kind.resident_bytes;
    total.proportional_bytes += kind.proportional_bytes;
    total.private_dirty_bytes += kind.private_dirty_bytes;
    total.huge_page_bytes += kind.huge_page_bytes;
    total.swap_bytes += kind.swap_bytes;
  }
  return total;
}

MappingKind KindOf(const ProcessMapping& mapping, std::span<const std::byte* const> frame_bases) {
  if (mapping.name == "[anon:swiftkv frames]") return MappingKind::kPages;
  if (mapping.name.starts_with("[anon:swiftkv ")) return MappingKind::kMetadata;
  if (mapping.name.empty() && mapping.HasFlag("nr") && mapping.HasFlag("nh")) {
    const bool aligned =
        mapping.begin % kHugePageBytes == 0 && mapping.end - mapping.begin >= kHugePageBytes;
    return aligned || HoldsAny(mapping, frame_bases) ? MappingKind::kPages : MappingKind::kMetadata;
  }
  if (IsModelFile(mapping)) return MappingKind::kWeights;
  const bool is_kernels = mapping.name.starts_with("[v");  // [vdso], [vvar], [vsyscall]
  return mapping.is_file() || is_kernels ? MappingKind::kProgram : MappingKind::kHeap;
}

Result<KernelView> ViewThisProcess(std::span<const std::byte* const> frame_bases) {
  SKV_ASSIGN_OR_RETURN(KernelView view, View("self", frame_bases));
  view.process_id = getpid();
  return view;
}

Result<KernelView> ViewProcess(int process_id) {
  Result<KernelView> view = View(std::to_string(process_id), {});
  if (view.ok()) {
    view->process_id = process_id;
    return view;
  }
  switch (view.status().code()) {
    case StatusCode::kNotFound:
      return Status::NotFound(fmt::format("no process runs under the number {}", process_id));
    case StatusCode::kInvalidArgument:
      return Status::InvalidArgument(fmt::format(
          "the memory of another user's process is told to its owner and to root only; process {}",
          process_id));
    case StatusCode::kUnsupported:
      return Status::Unsupported(fmt::format(
          "the process has no memory of its own: it has ended, or is the kernel's; process {}",
          process_id));
    default:
      return view.status();
  }
}

}  // namespace swiftkv
