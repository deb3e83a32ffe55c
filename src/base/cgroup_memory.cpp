// SPDX-License-Identifier: Apache-2.0
// Finds the hierarchies that account memory and walks each from the process's group to its root.
#include "base/cgroup_memory.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/kernel_text.h"

namespace swiftkv {
namespace {

constexpr std::size_t kMostBytes = 16U << 20;  // of a file; of a list of mounts, in effect

// Where one version of control groups lies and what it calls its files.
struct Hierarchy {
  int version = 2;
  std::string mount;  // directory of `mount_root`, below the root of files
  std::string mount_root = "/";
  const char* max = "memory.max";
  const char* high = "memory.high";
  const char* current = "memory.current";
  const char* swap_max = "memory.swap.max";
  const char* swap = "memory.swap.current";
  // Names within memory.stat.
  const char* inactive_file = "inactive_file";
  const char* active_file = "active_file";
};

Hierarchy Version2(const std::string& mount) { return {.mount = mount}; }

Hierarchy Version1(const std::string& mount) {
  return {.version = 1,
          .mount = mount,
          .max = "memory.limit_in_bytes",
          .high = "",
          .current = "memory.usage_in_bytes",
          .swap_max = "memory.memsw.limit_in_bytes",  // of memory and swap together
          .swap = "memory.memsw.usage_in_bytes",
          .inactive_file = "total_inactive_file",
          .active_file = "total_active_file"};
}

std::string ReadText(const std::string& path) {
  const Result<std::string> text = ReadKernelText(path, kMostBytes);
  return text.ok() ? *text : std::string();
}

// Nothing for "max" and for files that are not there.
std::optional<std::uint64_t> ReadNumber(const std::string& group, const char* file) {
  return *file == '\0' ? std::nullopt : ToNumber(ReadText(group + file));
}

std::uint64_t LimitOf(const std::string& group, const char* file) {
  constexpr std::uint64_t kAbsurd = std::uint64_t{1} << 62;  // version 1 says 2^63 - 4096
  const auto number = ReadNumber(group, file);
  return number && *number < kAbsurd ? *number : CgroupMemory::kUnlimited;
}

// Returns the value of a line "name 123", or `otherwise`.
std::uint64_t Statistic(std::string_view text, std::string_view name, std::uint64_t otherwise) {
  for (std::string_view line; TakeLine(&text, &line);) {
    if (TakeWord(&line) == name) return ToNumber(line).value_or(otherwise);
  }
  return otherwise;
}

// Nothing where the group does not account memory, as the root of version 2.
std::optional<CgroupMemory> ReadGroup(const Hierarchy& hierarchy, const std::string& group) {
  const auto current = ReadNumber(group, hierarchy.current);
  if (!current) return std::nullopt;
  CgroupMemory memory;
  memory.version = hierarchy.version;
  memory.current_bytes = *current;
  memory.max_bytes = LimitOf(group, hierarchy.max);
  memory.high_bytes = LimitOf(group, hierarchy.high);
  const std::string statistics = ReadText(group + "memory.stat");
  const std::uint64_t inactive = Statistic(statistics, hierarchy.inactive_file, 0);
  const std::uint64_t active = Statistic(statistics, hierarchy.active_file, 0);
  // MemAvailable counts pages of files in the same way, and a mapped model is mostly active ones.
  memory.used_bytes = *current - std::min(inactive, *current);
  memory.used_bytes -= std::min(active, memory.used_bytes);
  memory.swap_max_bytes = LimitOf(group, hierarchy.swap_max);
  memory.swap_bytes = ReadNumber(group, hierarchy.swap);
  if (hierarchy.version == 1) {
    if (memory.swap_bytes) *memory.swap_bytes -= std::min(*memory.swap_bytes, *current);
    if (memory.swap_max_bytes != CgroupMemory::kUnlimited) {
      memory.swap_max_bytes -= std::min(memory.swap_max_bytes, memory.max_bytes);
    }
    // Groups above that a container cannot see still limit it.
    const std::uint64_t above =
        Statistic(statistics, "hierarchical_memory_limit", CgroupMemory::kUnlimited);
    if (above < std::uint64_t{1} << 62) memory.max_bytes = std::min(memory.max_bytes, above);
  }
  memory.limit_bytes = std::min(memory.max_bytes, memory.high_bytes);
  return memory;
}

void Keep(const CgroupMemory& group, CgroupView* view) {
  if (!view->own) view->own = group;
  if (!group.is_limited()) return;
  if (!view->tightest || group.bytes_left() < view->tightest->bytes_left()) view->tightest = group;
}

// Whether a path names no folder above its start.
bool StaysInside(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (path.substr(0, end) == "..") return false;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return true;
}

// Returns the group's path below the mount: "" for the mount itself, also where the mount does not
// show the group.
std::string PathBelowMount(const Hierarchy& hierarchy, std::string path) {
  constexpr std::size_t kMostPathBytes = 4096;  // the system's own bound
  if (!path.starts_with('/') || path.size() > kMostPathBytes || !StaysInside(path)) return "";
  if (hierarchy.mount_root != "/") {
    if (!path.starts_with(hierarchy.mount_root)) return "";
    path.erase(0, hierarchy.mount_root.size());
    if (!path.empty() && path.front() != '/') return "";
  }
  while (path.ends_with('/')) path.pop_back();
  return path;
}

void ReadGroups(const Hierarchy& hierarchy, std::string path, CgroupView* view) {
  while (true) {
    if (auto group = ReadGroup(hierarchy, hierarchy.mount + path + "/")) {
      group->path = path.empty() ? "/" : path;
      Keep(*group, view);
    }
    if (path.empty()) return;
    path.resize(path.find_last_of('/'));
  }
}

// Paths in lists of mounts have blanks as \040.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code =
        text[i] == '\\' && text.size() - i > 3 ? ToNumber(text.substr(i + 1, 3), 8) : std::nullopt;
    plain += code ? static_cast<char>(*code) : text[i];
    if (code) i += 3;
  }
  return plain;
}

bool ListNames(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == name) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// Reads a line of mountinfo: "36 35 98:0 /root /mount rw,noatime shared:1 - type source options".
std::optional<Hierarchy> HierarchyOf(const std::string& root, std::string_view line) {
  for (int i = 0; i < 3; ++i) TakeWord(&line);
  const std::string mount_root = Unescaped(TakeWord(&line));
  const std::string mount = root + Unescaped(TakeWord(&line));
  while (!line.empty() && TakeWord(&line) != "-") {
  }
  const std::string_view type = TakeWord(&line);
  TakeWord(&line);
  if (type != "cgroup2" && (type != "cgroup" || !ListNames(line, "memory"))) return std::nullopt;
  Hierarchy hierarchy = type == "cgroup2" ? Version2(mount) : Version1(mount);
  hierarchy.mount_root = mount_root;
  return hierarchy;
}

std::vector<Hierarchy> FindHierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  const std::string mounts = ReadText(root + "/proc/self/mountinfo");
  std::string_view text = mounts;
  for (std::string_view line; TakeLine(&text, &line);) {
    auto hierarchy = HierarchyOf(root, line);
    if (hierarchy) found.push_back(std::move(*hierarchy));
  }
  if (!found.empty()) return found;
  return {Version1(root + "/sys/fs/cgroup/memory"), Version2(root + "/sys/fs/cgroup")};
}

}  // namespace

std::uint64_t CgroupMemory::bytes_left() const {
  return limit_bytes - std::min(used_bytes, limit_bytes);
}

CgroupView ReadCgroups(const std::string& root, const std::string& process) {
  CgroupView view;
  const std::vector<Hierarchy> hierarchies = FindHierarchies(root);
  const std::string groups = ReadText(root + "/proc/" + process + "/cgroup");
  std::string_view text = groups;
  for (std::string_view line; TakeLine(&text, &line);) {  // "hierarchy:controllers:/path"
    const std::size_t first = std::min(line.find(':'), line.size());
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const int version = controllers.empty() ? 2 : 1;
    if (version == 1 && !ListNames(controllers, "memory")) continue;
    const std::string path(line.substr(second + 1));
    const auto hierarchy =
        std::find_if(hierarchies.begin(), hierarchies.end(),
                     [&](const Hierarchy& candidate) { return candidate.version == version; });
    if (hierarchy != hierarchies.end()) {
      ReadGroups(*hierarchy, PathBelowMount(*hierarchy, path), &view);
    }
  }
  return view;
}

std::optional<CgroupMemory> ReadCgroupMemory(const std::string& root) {
  return ReadCgroups(root).tightest;
}

}  // namespace swiftkv
