// SPDX-License-Identifier: Apache-2.0
// Implements the count of usable cores for Linux.
#include "model/thread_count.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

namespace swiftkv {
namespace {

int AffinityCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Returns ceil(quota / period), or `cores` where there is no quota.
int QuotaCores(double quota, double period, int cores) {
  if (quota <= 0.0 || period <= 0.0) return cores;
  const double granted = quota / period;
  if (granted >= cores) return cores;
  return std::max(1, static_cast<int>(granted + 0.999));
}

double ReadNumber(const std::string& path) {
  std::ifstream file(path);
  double value = 0.0;
  return file >> value ? value : 0.0;
}

// Version 2: "max 100000" or "150000 100000" in every group from the process's own up to the root.
int Version2Cores(const std::string& root, std::string group, int cores) {
  for (;;) {
    std::ifstream file(root + "sys/fs/cgroup" + group + "/cpu.max");
    std::string quota;
    double period = 0.0;
    if (file >> quota >> period && quota != "max") {
      cores = QuotaCores(std::atof(quota.c_str()), period, cores);
    }
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return cores;
    group.resize(slash);
  }
}

int Version1Cores(const std::string& root, const std::string& group, int cores) {
  for (const std::string& folder : {group, std::string()}) {
    const std::string base = root + "sys/fs/cgroup/cpu" + folder + "/cpu.cfs_";
    cores = QuotaCores(ReadNumber(base + "quota_us"), ReadNumber(base + "period_us"), cores);
  }
  return cores;
}

}  // namespace

int AvailableCores(const std::string& root) {
  int cores = AffinityCores();
  // Lines are "id:controllers:path"; version 2 has no controllers.
  std::ifstream file(root + "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") {
      cores = Version2Cores(root, group, cores);
    } else if (controllers.find(",cpu,") != std::string::npos) {
      cores = Version1Cores(root, group, cores);
    }
  }
  return cores;
}

}  // namespace swiftkv
