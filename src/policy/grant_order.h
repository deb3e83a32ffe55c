// SPDX-License-Identifier: Apache-2.0
// Orders the pages of all heads by who is granted the next one, whatever the budget.
//
// A budget takes a prefix of this order. Therefore a larger budget keeps all that a smaller one
// keeps, for every way of splitting: kept sets are nested and bytes are monotone by construction.
#pragma once

#include <span>
#include <vector>

#include "policy/budget_settings.h"

namespace swiftkv {

struct HeadValues {
  int layer = 0;
  // The mean scores of the head's pages, its best tokens first; never rising.
  std::span<const float> pages;
};

// Returns indices of `heads`, each as often as it has pages: the nth occurrence grants its nth
// page. Heads of a layer are neighbours, layers ascend; values are finite or +inf. O(n log n).
//
// kUniform takes the first page of every head, then the second, and so on. kPyramid does so within
// layers, and layers advance in proportion to weights that fall linearly from 2 - 1/steepness to
// 1/steepness. kAda takes the pages of a layer by value, layers in turn; kGlobal those of all
// layers. In both, whenever n pages of h heads are granted, floor * n / h are in every head that
// has as many.
std::vector<int> GrantOrder(const BudgetSettings& settings, std::span<const HeadValues> heads);

}  // namespace swiftkv
