// SPDX-License-Identifier: Apache-2.0
// Tells kinds of mappings apart by names and by flags, and looks at processes that run and that do
// not.
#include "tools/kernel_view.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "cache/mapped_range.h"
#include "support/sanitizers.h"

namespace swiftkv {
namespace {

ProcessMapping Mapping(std::uint64_t begin, std::uint64_t bytes, const char* permissions,
                       const char* name, const char* flags) {
  ProcessMapping mapping;
  mapping.begin = begin;
  mapping.end = begin + bytes;
  mapping.permissions = permissions;
  mapping.name = name;
  mapping.flags = flags;
  return mapping;
}

TEST(KernelViewTest, KindsAreToldByNamesElseByFlagsAndAddresses) {
  constexpr const char* kRange = "rd wr mr mw me nr nh ";
  constexpr const char* kPlain = "rd wr mr mw me ac ";
  constexpr std::uint64_t kAt = 64 * kHugePageBytes;
  const auto kind = [](const ProcessMapping& mapping) { return KindOf(mapping, {}); };
  EXPECT_EQ(kind(Mapping(4096, 4096, "rw-p", "[anon:swiftkv frames]", "")), MappingKind::kPages);
  EXPECT_EQ(kind(Mapping(4096, 4096, "rw-p", "[anon:swiftkv twins]", "")), MappingKind::kMetadata);
  EXPECT_EQ(kind(Mapping(kAt, kHugePageBytes, "rw-p", "", kRange)), MappingKind::kPages);
  const ProcessMapping array = Mapping(kAt + 4096, kHugePageBytes, "rw-p", "", kRange);
  EXPECT_EQ(kind(array), MappingKind::kMetadata);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address, never read
  const std::byte* const base = reinterpret_cast<const std::byte*>(kAt + 8192);
  EXPECT_EQ(KindOf(array, std::span(&base, 1)), MappingKind::kPages);
  EXPECT_EQ(kind(Mapping(kAt, kHugePageBytes, "rw-p", "", kPlain)), MappingKind::kHeap);
  EXPECT_EQ(kind(Mapping(kAt, 4096, "rw-p", "[heap]", kPlain)), MappingKind::kHeap);
  EXPECT_EQ(kind(Mapping(kAt, 4096, "rw-p", "[stack]", kPlain)), MappingKind::kHeap);
  EXPECT_EQ(kind(Mapping(kAt, 4096, "r--s", "/models/a.gguf", "rd sh")), MappingKind::kWeights);
  EXPECT_EQ(kind(Mapping(kAt, 4096, "r--s", "/tmp/w (deleted)", "rd sh")), MappingKind::kWeights);
  EXPECT_EQ(kind(Mapping(kAt, 4096, "r--s", "/usr/lib/gconv/gconv-modules.cache", "rd")),
            MappingKind::kProgram);
  EXPECT_EQ(kind(Mapping(kAt, 4096, "r-xp", "/usr/lib/libc.so.6", "rd ex")), MappingKind::kProgram);
  EXPECT_EQ(kind(Mapping(kAt, 4096, "r-xp", "[vdso]", "rd ex")), MappingKind::kProgram);
}

TEST(KernelViewTest, RangesOfACacheAreFoundInThisProcess) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow is mapped as a cache's ranges are";
  const MappedRange pages =
      MappedRange::Reserve(2 * kHugePageBytes, "swiftkv frames", kHugePageBytes).value();
  const MappedRange array = MappedRange::Reserve(3 * OsPageBytes(), "swiftkv test").value();
  const KernelView before = ViewThisProcess({}).value();
  for (int i = 0; i < 5; ++i) pages.data()[i * 4096] = std::byte{1};
  array.data()[0] = std::byte{1};
  const KernelView after = ViewThisProcess({}).value();
  EXPECT_EQ(after.process_id, getpid());
  EXPECT_EQ(after.of(MappingKind::kPages).resident_bytes,
            before.of(MappingKind::kPages).resident_bytes + 5 * 4096);
  EXPECT_EQ(after.of(MappingKind::kMetadata).resident_bytes,
            before.of(MappingKind::kMetadata).resident_bytes + 4096);
  EXPECT_GT(after.of(MappingKind::kHeap).resident_bytes, 0U);
  EXPECT_GT(after.of(MappingKind::kProgram).resident_bytes, 0U);
  const KernelView other = ViewProcess(getpid()).value();
  EXPECT_EQ(other.of(MappingKind::kPages).resident_bytes,
            after.of(MappingKind::kPages).resident_bytes);
}

TEST(KernelViewTest, ProcessesThatAreNotThereAreNamed) {
  const Status gone = ViewProcess(999999999).status();
  EXPECT_EQ(gone.code(), StatusCode::kNotFound);
  EXPECT_NE(gone.message().find("999999999"), std::string::npos);
}

}  // namespace
}  // namespace swiftkv
