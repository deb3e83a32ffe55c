// SPDX-License-Identifier: Apache-2.0
// Lays views of memory out in columns.
#include "tools/memory_report.h"

#include <fmt/format.h>

#include "base/byte_size.h"
#include "tools/printable_text.h"

namespace swiftkv {
namespace {

// A row of mappings; `difference` says what the kernel counts more or less, and why.
std::string KindRow(const char* name, const std::string& counted, const MappingFigures& figures,
                    const std::string& difference) {
  return fmt::format("{:<14}{:>12}{:>12}{:>12}{:>12}  {}\n", name, counted,
                     FormatByteSize(figures.resident_bytes),
                     FormatByteSize(figures.private_dirty_bytes),
                     FormatByteSize(figures.huge_page_bytes), difference);
}

// What a kind's difference consists of, where the kernel counts more and where it counts less.
struct DifferenceNames {
  const char* more;
  const char* less;
};

std::string DifferenceText(std::uint64_t kernel, std::uint64_t counted,
                           const DifferenceNames& names) {
  if (kernel == counted) return "none";
  const bool more = kernel > counted;
  return fmt::format("{}{}: {}", more ? "+" : "-",
                     FormatByteSize(more ? kernel - counted : counted - kernel),
                     more ? names.more : names.less);
}

std::string CountedRow(const MemoryView& view, const char* name, MappingKind kind,
                       std::uint64_t counted, const DifferenceNames& names) {
  const MappingFigures& figures = view.kernel.of(kind);
  return KindRow(name, FormatByteSize(counted), figures,
                 DifferenceText(figures.resident_bytes, counted, names));
}

std::string HeapRow(const char* name, std::uint64_t bytes, const std::string& note = "") {
  return fmt::format("  {:<24}{:>12}{}{}\n", name, FormatByteSize(bytes), note.empty() ? "" : "  ",
                     note);
}

std::string HeapText(const MemoryView& view) {
  const HeapCounts& heap = view.heap;
  const ModelMemory& model = view.report.model;
  std::string text = "\nheap, as counted\n";
  text += HeapRow("activations", heap.activation_bytes,
                  fmt::format("touched, of {}", FormatByteSize(model.activation_bytes)));
  text += HeapRow("repacked weights", heap.repacked_weights_bytes);
  text += HeapRow("packed weights", heap.packed_weights_bytes);
  text += HeapRow("guides of keys", heap.key_guide_bytes);
  text += HeapRow("vocabulary and template", heap.vocabulary_bytes);
  text += HeapRow("page tables", heap.kv_metadata_bytes);
  text += HeapRow("other", heap.other_bytes, "graphs, records of tensors, metadata of the file");
  text += HeapRow("kept by the allocator", heap.kept_bytes, "given back by the program");
  return text;
}

std::string GroupText(const CgroupMemory& group) {
  std::string text =
      fmt::format("version {}, {}: {} charged, {} of it not to be dropped; ", group.version,
                  PrintableExcerpt(group.path, 100), FormatByteSize(group.current_bytes),
                  FormatByteSize(group.used_bytes));
  if (!group.is_limited()) return text + "no limit";
  const bool is_high = group.high_bytes < group.max_bytes;
  return text + fmt::format("{} {}, {} left", is_high ? "slowed down above" : "limited to",
                            FormatByteSize(group.limit_bytes), FormatByteSize(group.bytes_left()));
}

std::string Line(const char* name, const std::string& value) {
  return fmt::format("{:<14}{}\n", name, value);
}

std::string SurroundingsText(const KernelView& view) {
  const ProcessMemory& process = view.process;
  std::string text =
      Line("process",
           fmt::format("{} ({}): {} resident, at most {}; {} as its share (Pss), {} "
                       "swapped",
                       view.process_id, PrintableExcerpt(process.name, 40),
                       FormatByteSize(process.resident_bytes), FormatByteSize(process.peak_bytes),
                       FormatByteSize(view.total().proportional_bytes),
                       FormatByteSize(process.swap_bytes)));
  const CgroupView& groups = view.cgroups;
  text += Line("cgroup", groups.own ? GroupText(*groups.own) : "none accounts memory");
  if (groups.tightest && (!groups.own || groups.tightest->path != groups.own->path)) {
    text += Line("tightest", GroupText(*groups.tightest));
  }
  const MachineMemory& machine = view.machine;
  text += Line(
      "machine",
      fmt::format("{}, {} available; swap {}, {} free; huge pages: {}",
                  FormatByteSize(machine.total_bytes), FormatByteSize(machine.available_bytes),
                  FormatByteSize(machine.swap_total_bytes), FormatByteSize(machine.swap_free_bytes),
                  machine.huge_pages.empty() ? "none" : machine.huge_pages));
  return text;
}

std::string Heading(const char* last) {
  return fmt::format("\n{:<14}{:>12}{:>12}{:>12}{:>12}  {}\n", "", "counted", "kernel", "dirty",
                     "huge pages", last);
}

}  // namespace

std::string KernelViewText(const KernelView& view) {
  constexpr const char* kNames[] = {"KV pages", "KV metadata", "weights", "heap", "program"};
  std::string text = SurroundingsText(view);
  text += fmt::format("\n{:<14}{:>12}{:>12}{:>12}{:>12}\n", "", "kernel", "dirty", "huge pages",
                      "mappings");
  for (std::size_t i = 0; i < kNumMappingKinds; ++i) {
    const MappingFigures& figures = view.kinds[i];
    text += fmt::format("{:<14}{:>12}{:>12}{:>12}{:>12}\n", kNames[i],
                        FormatByteSize(figures.resident_bytes),
                        FormatByteSize(figures.private_dirty_bytes),
                        FormatByteSize(figures.huge_page_bytes), figures.mappings);
  }
  return text;
}

std::string MemoryViewText(const MemoryView& view) {
  const KvReport& kv = view.report;
  std::string text = Line("model", PrintableLine(view.model));
  text +=
      Line("sequence", fmt::format("{} tokens in {}: {} of slots, {} allocated ({:.1f} % waste)",
                                   kv.logical_tokens, kv.format, FormatByteSize(kv.bytes_used),
                                   FormatByteSize(kv.bytes_allocated), kv.waste_fraction * 100));
  text += Line("KV memory", fmt::format("{} now, {} at most so far; the bound is {}",
                                        FormatByteSize(kv.balance.mapped_bytes),
                                        FormatByteSize(kv.balance.peak_bytes),
                                        FormatByteSize(kv.balance.limit_bytes)));
  text += SurroundingsText(view.kernel);

  text += Heading("kernel less counted");
  text += CountedRow(view, "KV pages", MappingKind::kPages, view.counted_pages_bytes(),
                     {"pages that nobody charged", "reserved and not written yet"});
  text += CountedRow(view, "KV metadata", MappingKind::kMetadata, view.counted_metadata_bytes(),
                     {"pages that nobody charged", "not written yet"});
  text += CountedRow(view, "weights", MappingKind::kWeights, kv.model.mapped_weights_bytes,
                     {"the file's metadata, and what lies beside tensors",
                      "dropped by the kernel; read again when needed"});
  text += CountedRow(
      view, "heap", MappingKind::kHeap, view.heap.total(),
      {"stacks, kernels made at run time", "given out and not touched, or back with the system"});
  text += KindRow("program", "", view.kernel.of(MappingKind::kProgram), "");
  text += KindRow("together", FormatByteSize(view.counted_total_bytes()), view.kernel.total(), "");
  text += HeapText(view);

  const AutomaticKvMemory& automatic = view.automatic;
  text += fmt::format(
      "\n--kv-memory auto gives {}: {} available, less {} of mapped weights, {} of activations "
      "not\ntouched yet and {} of headroom\n",
      FormatByteSize(automatic.bytes), FormatByteSize(automatic.available_bytes),
      FormatByteSize(automatic.weights_bytes), FormatByteSize(automatic.activation_bytes),
      FormatByteSize(automatic.headroom_bytes));
  return text;
}

}  // namespace swiftkv
