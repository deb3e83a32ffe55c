// SPDX-License-Identifier: Apache-2.0
// Parses procfs; every figure is in bytes.
#include "base/process_memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/kernel_text.h"
#include "base/process_mappings.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

Result<std::uint64_t> ReadKilobytes(const std::string& path, const char* name) {
  SKV_ASSIGN_OR_RETURN(const std::string text, ReadKernelText(path));
  const auto bytes = FindKilobytes(text, name);
  if (bytes) return *bytes;
  return Status::Internal("the kernel does not tell " + std::string(name) + " in " + path);
}

// Returns the word in brackets: "always [madvise] never".
std::string ChosenWord(const std::string& text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  return begin < end && end != std::string::npos ? text.substr(begin + 1, end - begin - 1) : "";
}

}  // namespace

Result<std::uint64_t> ResidentBytes(const void* begin, std::size_t bytes) {
  SKV_ASSIGN_OR_RETURN(const std::vector<ProcessMapping> mappings, ReadMappings("/proc/self"));
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  std::uint64_t total = 0;
  for (const ProcessMapping& mapping : mappings) {
    if (mapping.begin < first + bytes && mapping.end > first) total += mapping.resident_bytes;
  }
  return total;
}

std::uint64_t TouchedBytes(const void* begin, std::size_t bytes) {
  if (bytes == 0) return 0;
  constexpr std::size_t kPagesAtOnce = 4096;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t end = (address + bytes + page - 1) / page * page;
  std::vector<unsigned char> resident(kPagesAtOnce);
  std::uint64_t pages = 0;
  for (std::uintptr_t at = address / page * page; at < end;) {
    const std::size_t count = std::min<std::size_t>(kPagesAtOnce, (end - at) / page);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel takes whole pages
    if (mincore(reinterpret_cast<void*>(at), count * page, resident.data()) != 0) break;
    pages += static_cast<std::uint64_t>(
        std::count_if(resident.begin(), resident.begin() + static_cast<std::ptrdiff_t>(count),
                      [](unsigned char state) { return (state & 1U) != 0; }));
    at += count * page;
  }
  return std::min<std::uint64_t>(pages * page, bytes);
}

Result<std::uint64_t> ProcessResidentBytes() {
  return ReadKilobytes("/proc/self/status", "VmRSS:");
}

Result<std::uint64_t> ProcessPeakResidentBytes() {
  return ReadKilobytes("/proc/self/status", "VmHWM:");
}

Result<ProcessMemory> ReadProcessMemory(const std::string& folder) {
  SKV_ASSIGN_OR_RETURN(const std::string text, ReadKernelText(folder + "/status"));
  ProcessMemory memory;
  const auto resident = FindKilobytes(text, "VmRSS:");
  if (!resident) {
    return Status::Unsupported(
        "a process without memory of its own (it has ended, or is the "
        "kernel's): " +
        folder);
  }
  memory.resident_bytes = *resident;
  memory.peak_bytes = FindKilobytes(text, "VmHWM:").value_or(0);
  memory.swap_bytes = FindKilobytes(text, "VmSwap:").value_or(0);
  std::string_view rest = text;
  for (std::string_view line; TakeLine(&rest, &line);) {
    if (TakeWord(&line) != "Name:") continue;
    memory.name = line;
    break;
  }
  return memory;
}

HeapMemory ReadHeapMemory() {
  const struct mallinfo2 info = mallinfo2();
  return {info.uordblks + info.hblkhd, info.fordblks};
}

MachineMemory ReadMachineMemory(const std::string& root) {
  MachineMemory machine;
  const Result<std::string> text = ReadKernelText(root + "/proc/meminfo");
  if (text.ok()) {
    machine.total_bytes = FindKilobytes(*text, "MemTotal:").value_or(0);
    machine.available_bytes = FindKilobytes(*text, "MemAvailable:").value_or(0);
    machine.swap_total_bytes = FindKilobytes(*text, "SwapTotal:").value_or(0);
    machine.swap_free_bytes = FindKilobytes(*text, "SwapFree:").value_or(0);
  }
  const Result<std::string> modes =
      ReadKernelText(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  if (modes.ok()) machine.huge_pages = ChosenWord(*modes);
  return machine;
}

Result<std::uint64_t> MachineAvailableBytes() {
  return ReadKilobytes("/proc/meminfo", "MemAvailable:");
}

Result<std::uint64_t> AvailableBytes() {
  Result<std::uint64_t> machine = MachineAvailableBytes();
  if (!machine.ok()) return machine;
  const auto group = ReadCgroupMemory();
  return group ? std::min(*machine, group->bytes_left()) : *machine;
}

}  // namespace swiftkv
