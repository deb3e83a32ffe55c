// SPDX-License-Identifier: Apache-2.0
// Merges pages by value with those that the floor demands, and layers by their weights.
#include "policy/grant_order.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace swiftkv {
namespace {

struct Page {
  int head;
  int rank;  // within the head
  float value;
};

// Heads [first, end) that compete for the same pages.
struct Group {
  int first;
  int end;
  double weight;  // of its turns
};

// When a page of a group has its turn.
struct Turn {
  double time;
  int group;
  int head;
};

std::vector<Group> MakeGroups(const BudgetSettings& settings, std::span<const HeadValues> heads) {
  std::vector<Group> groups;
  const int count = static_cast<int>(heads.size());
  for (int head = 0; head < count; ++head) {
    const int layer = heads[static_cast<std::size_t>(head)].layer;
    const bool starts =
        groups.empty() || (settings.split != BudgetSplit::kGlobal &&
                           layer != heads[static_cast<std::size_t>(head - 1)].layer);
    if (starts) groups.push_back({head, head, 1});
    groups.back().end = head + 1;
  }
  const double lowest = 1 / settings.steepness;
  const auto steps = static_cast<double>(groups.size()) - 1;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const double heads_of_group = groups[g].end - groups[g].first;
    double share = 1;
    if (settings.split == BudgetSplit::kPyramid && steps > 0) {
      share = 2 - lowest - 2 * (1 - lowest) * static_cast<double>(g) / steps;
    }
    groups[g].weight = share * heads_of_group;
  }
  return groups;
}

std::vector<Page> PagesOf(const Group& group, std::span<const HeadValues> heads) {
  std::vector<Page> pages;
  for (int head = group.first; head < group.end; ++head) {
    const std::span<const float> values = heads[static_cast<std::size_t>(head)].pages;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      pages.push_back({head, static_cast<int>(rank), values[rank]});
    }
  }
  return pages;
}

// Returns the heads of a group in the order in which they are granted pages.
std::vector<int> OrderWithin(const Group& group, std::span<const HeadValues> heads, double floor) {
  std::vector<Page> even = PagesOf(group, heads);
  std::vector<Page> best = even;
  std::sort(even.begin(), even.end(), [](const Page& a, const Page& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.head < b.head;
  });
  std::sort(best.begin(), best.end(), [](const Page& a, const Page& b) {
    if (a.value != b.value) return a.value > b.value;
    return a.rank != b.rank ? a.rank < b.rank : a.head < b.head;
  });
  std::vector<int> granted(static_cast<std::size_t>(group.end - group.first));
  std::vector<int> order;
  order.reserve(even.size());
  std::size_t next_even = 0;
  std::size_t next_best = 0;
  while (order.size() < even.size()) {
    const bool floor_demands =
        static_cast<double>(next_even) < floor * static_cast<double>(order.size() + 1);
    const Page& page = floor_demands ? even[next_even++] : best[next_best++];
    int& of_head = granted[static_cast<std::size_t>(page.head - group.first)];
    if (page.rank < of_head) continue;
    SKV_CHECK(page.rank == of_head, "values of a head never rise");
    ++of_head;
    order.push_back(page.head);
  }
  return order;
}

}  // namespace

std::vector<int> GrantOrder(const BudgetSettings& settings, std::span<const HeadValues> heads) {
  const bool by_value =
      settings.split == BudgetSplit::kAda || settings.split == BudgetSplit::kGlobal;
  const std::vector<Group> groups = MakeGroups(settings, heads);
  std::vector<Turn> turns;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<int> order = OrderWithin(groups[g], heads, by_value ? settings.floor : 1);
    for (std::size_t i = 0; i < order.size(); ++i) {
      turns.push_back(
          {static_cast<double>(i + 1) / groups[g].weight, static_cast<int>(g), order[i]});
    }
  }
  std::stable_sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) {
    return a.time != b.time ? a.time < b.time : a.group < b.group;
  });
  std::vector<int> order;
  order.reserve(turns.size());
  for (const Turn& turn : turns) order.push_back(turn.head);
  return order;
}

}  // namespace swiftkv
