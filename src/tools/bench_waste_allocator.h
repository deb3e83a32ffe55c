// SPDX-License-Identifier: Apache-2.0
// Defines how benches see an allocator of KV memory: requests come, grow and go; slots and bytes
// are read off.
//
// A slot is the place of one token in all layers. An allocator stores no rows: it takes the memory
// that a step would take, and makes resident what a step would write. It has a number of seats,
// each free or taken by one request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/option_field.h"
#include "swiftkv/kv_cache.h"
#include "tools/bench_lengths.h"

namespace swiftkv {

struct AllocatorSpec {
  std::vector<LayerShape> layers;  // of one shape, without a window
  KvFormat format;
  int seats = 1;
  std::uint64_t memory_bytes = 0;  // never to be passed
};

class RequestAllocator {
 public:
  virtual ~RequestAllocator() = default;

  // Gives a free seat to a request. A reservation may look at all of its length, as far as its rule
  // knows it; paging does not. Errors: ResourceExhausted.
  virtual Status Start(int seat, const RequestLengths& lengths) = 0;
  // Stores tokens of the seat's request. Errors: ResourceExhausted.
  virtual Status Append(int seat, int tokens) = 0;
  virtual void End(int seat) = 0;

  // Returns the slots that the seat's request holds, filled or not.
  virtual std::int64_t AllocatedSlots(int seat) const = 0;
  // Returns the slots that memory in use would have where no request holds any.
  virtual double ExternalSlots() const = 0;
  // Returns the bytes of the slots that hold a token.
  virtual std::uint64_t FilledBytes() const = 0;
  // Returns what the kernel counts for the allocator's memory (Private_Dirty in smaps), and what it
  // charges for bookkeeping on the heap. One cache lives in the process at a time. Errors: those of
  // ReadMappings.
  virtual Result<std::uint64_t> ResidentBytes() = 0;
};

struct NamedAllocator {
  const char* name;
  const char* summary;  // what a request holds
  Result<std::unique_ptr<RequestAllocator>> (*make)(const AllocatorSpec& spec);
};

// A new allocator is one file and one row.
std::span<const NamedAllocator> AllAllocators();

// Returns the allocators of a list of names; all of them for "all". Errors: InvalidArgument with
// the names.
Result<std::vector<NamedAllocator>> ListAllocators(const NameList& names);

}  // namespace swiftkv
