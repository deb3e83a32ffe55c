// SPDX-License-Identifier: Apache-2.0
// Parses procfs and the control group file systems; every figure is in bytes.
#include "base/process_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace swiftkv {
namespace {

std::optional<std::uint64_t> ToNumber(std::string_view text, int base) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

std::string_view SkipBlanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

// Returns the number of a line "Name:   123 kB" in bytes.
std::optional<std::uint64_t> KilobytesAfter(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return std::nullopt;
  const auto number = ToNumber(SkipBlanks(line.substr(name.size())), 10);
  if (!number) return std::nullopt;
  return *number * 1024;
}

Result<std::uint64_t> ReadKilobytes(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (const auto bytes = KilobytesAfter(line, name)) return *bytes;
  }
  return Status::Internal("the kernel does not tell " + std::string(name) + " in " + path);
}

std::optional<std::uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return ToNumber(line, 10);  // nothing for "max"
}

// Returns the value of a line "name 123" of a memory.stat file, or 0.
std::uint64_t ReadStatistic(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::string_view text = line;
    if (text.starts_with(name) && text.substr(name.size()).starts_with(" ")) {
      return ToNumber(SkipBlanks(text.substr(name.size())), 10).value_or(0);
    }
  }
  return 0;
}

// Where one version of control groups keeps its files and what it calls them.
struct Hierarchy {
  std::string mount;  // directory of the root group
  const char* limit;
  const char* usage;
  const char* inactive_file;  // name within memory.stat
};

std::uint64_t BytesLeft(const CgroupMemory& group) {
  return group.limit_bytes - std::min(group.used_bytes, group.limit_bytes);
}

void KeepTighter(std::optional<CgroupMemory>* tightest, const CgroupMemory& group) {
  if (!*tightest || BytesLeft(group) < BytesLeft(**tightest)) *tightest = group;
}

// Reads the group at `path` and all groups above it. Inside a container the path may name groups
// that cannot be seen; the root group is then the container's own.
void ReadGroups(const Hierarchy& hierarchy, std::string path,
                std::optional<CgroupMemory>* tightest) {
  constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 62;  // version 1 says 2^63 - 4096
  while (true) {
    const std::string group = hierarchy.mount + path + "/";
    const auto limit = ReadNumber(group + hierarchy.limit);
    const auto usage = ReadNumber(group + hierarchy.usage);
    if (limit && usage && *limit < kUnlimited) {
      const std::uint64_t droppable = ReadStatistic(group + "memory.stat", hierarchy.inactive_file);
      KeepTighter(tightest, {*limit, *usage - std::min(droppable, *usage)});
    }
    if (path.empty()) return;
    path.resize(path.find_last_of('/'));
  }
}

}  // namespace

Result<std::uint64_t> ResidentBytes(const void* begin, std::size_t bytes) {
  std::ifstream file("/proc/self/smaps");
  if (!file) return Status::Internal("cannot read /proc/self/smaps");
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t last = first + bytes;
  std::uint64_t total = 0;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    const std::string_view text = line;
    const std::size_t dash = text.find('-');
    const std::size_t space = text.find(' ');
    if (dash < space && space != std::string_view::npos && text[space - 1] != ':') {
      const auto low = ToNumber(text.substr(0, dash), 16);
      const auto high = ToNumber(text.substr(dash + 1, space - dash - 1), 16);
      inside = low && high && *low<last&& * high> first;
    } else if (inside) {
      total += KilobytesAfter(text, "Rss:").value_or(0);
    }
  }
  return total;
}

Result<std::uint64_t> ProcessResidentBytes() {
  return ReadKilobytes("/proc/self/status", "VmRSS:");
}

Result<std::uint64_t> ProcessPeakResidentBytes() {
  return ReadKilobytes("/proc/self/status", "VmHWM:");
}

Result<std::uint64_t> MachineAvailableBytes() {
  return ReadKilobytes("/proc/meminfo", "MemAvailable:");
}

std::optional<CgroupMemory> ReadCgroupMemory(const std::string& root) {
  const Hierarchy version1 = {root + "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                              "memory.usage_in_bytes", "total_inactive_file"};
  const Hierarchy version2 = {root + "/sys/fs/cgroup", "memory.max", "memory.current",
                              "inactive_file"};
  std::optional<CgroupMemory> tightest;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "hierarchy:controllers:/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (!path.empty() && path.front() != '/') continue;
    if (controllers == ",,") ReadGroups(version2, path, &tightest);
    if (controllers.find(",memory,") != std::string::npos) ReadGroups(version1, path, &tightest);
  }
  return tightest;
}

Result<std::uint64_t> AvailableBytes() {
  Result<std::uint64_t> machine = MachineAvailableBytes();
  if (!machine.ok()) return machine;
  const auto group = ReadCgroupMemory();
  return group ? std::min(*machine, BytesLeft(*group)) : *machine;
}

}  // namespace swiftkv
