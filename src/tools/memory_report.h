// SPDX-License-Identifier: Apache-2.0
// Words views of memory, as tables for people and as JSON (docs/json.md).
#pragma once

#include <string>

#include "tools/kernel_view.h"
#include "tools/memory_view.h"

namespace swiftkv {

// Returns the lines of `inspect --memory`.
std::string MemoryViewText(const MemoryView& view);
// Returns one line without a line break.
std::string MemoryViewJson(const MemoryView& view);

// Likewise of `inspect --memory --pid`: what the kernel counts, alone.
std::string KernelViewText(const KernelView& view);
std::string KernelViewJson(const KernelView& view);

}  // namespace swiftkv
