// SPDX-License-Identifier: Apache-2.0
// Tests what allocators hold for requests, and that the kernel agrees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process_memory.h"
#include "cache/mapped_range.h"
#include "support/sanitizers.h"
#include "tools/bench_waste_allocator.h"
#include "tools/bench_waste_pool.h"

namespace swiftkv {
namespace {

using testing::EndsWith;

AllocatorSpec Spec(const char* key, const char* value) {
  AllocatorSpec spec;
  spec.layers.assign(30, {.kv_heads = 3, .head_dim = 64, .window = 0});
  spec.format = {key, value};
  spec.seats = 3;
  spec.memory_bytes = std::uint64_t{256} << 20;
  return spec;
}

std::unique_ptr<RequestAllocator> Make(const std::string& name, const AllocatorSpec& spec) {
  const auto rows = ListAllocators({{name}});
  EXPECT_TRUE(rows.ok()) << rows.status().message();
  auto allocator = rows->front().make(spec);
  EXPECT_TRUE(allocator.ok()) << allocator.status().message();
  return std::move(*allocator);
}

void Serve(RequestAllocator* allocator, int seat, RequestLengths lengths, int decoded) {
  ASSERT_TRUE(allocator->Start(seat, lengths).ok());
  ASSERT_TRUE(allocator->Append(seat, lengths.prompt).ok());
  for (int i = 0; i < decoded; ++i) ASSERT_TRUE(allocator->Append(seat, 1).ok());
}

TEST(BenchWasteAllocatorsTest, EachHoldsTheSlotsOfItsRule) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow is mapped as a cache's ranges are";
  struct Expected {
    const char* allocator;
    std::int64_t slots[2];  // of a request of 100 + 30 tokens with 5 decoded, and of one of 20 + 44
  };
  for (const Expected& expected :
       {Expected{"paged", {112, 32}}, Expected{"contiguous_max", {2048, 2048}},
        Expected{"contiguous_pow2", {256, 64}}, Expected{"contiguous_exact", {130, 64}}}) {
    SCOPED_TRACE(expected.allocator);
    const auto allocator = Make(expected.allocator, Spec("f16", "f16"));
    Serve(allocator.get(), 0, {100, 30}, 5);
    Serve(allocator.get(), 2, {20, 44}, 0);
    EXPECT_EQ(allocator->AllocatedSlots(0), expected.slots[0]);
    EXPECT_EQ(allocator->AllocatedSlots(2), expected.slots[1]);
    EXPECT_EQ(allocator->FilledBytes(), 125U * 23040);
    EXPECT_EQ(allocator->ExternalSlots(), 0);
    // Frames and reservations are whole OS pages in this geometry; bookkeeping comes on top.
    const auto allocated =
        static_cast<std::uint64_t>(expected.slots[0] + expected.slots[1]) * 23040;
    EXPECT_GE(allocator->ResidentBytes().value(), allocated);
    EXPECT_LE(allocator->ResidentBytes().value(), allocated + (64 << 10));
  }
}

TEST(BenchWasteAllocatorsTest, HolesOfReservationsAreExternalAndPagesOfPagingGoBack) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow is mapped as a cache's ranges are";
  for (const char* name : {"contiguous_max", "contiguous_pow2", "contiguous_exact", "paged"}) {
    SCOPED_TRACE(name);
    const auto allocator = Make(name, Spec("f16", "f16"));
    for (int seat = 0; seat < 3; ++seat) Serve(allocator.get(), seat, {60, 4}, 4);
    const std::int64_t slots = allocator->AllocatedSlots(1);
    const std::uint64_t resident = allocator->ResidentBytes().value();
    allocator->End(1);
    const bool is_paged = std::string(name) == "paged";
    EXPECT_EQ(allocator->ExternalSlots(), is_paged ? 0 : static_cast<double>(slots));
    const std::uint64_t given_back = is_paged ? 64U * 23040 : 0;
    EXPECT_EQ(allocator->ResidentBytes().value(), resident - given_back);
    Serve(allocator.get(), 1, {60, 4}, 4);
    EXPECT_EQ(allocator->ExternalSlots(), 0);
    EXPECT_EQ(allocator->ResidentBytes().value(), resident);
  }
}

TEST(BenchWasteAllocatorsTest, FormatsThatSealOldBlocksAreCountedInTheirRealBytes) {
  const auto allocator = Make("paged", Spec("int4", "int4"));
  Serve(allocator.get(), 0, {500, 10}, 0);
  // Block 0 and the newest 8 to 9 blocks in int8, the others sealed: all but the outer layers in
  // 4 bits.
  const std::uint64_t open_page = 64 + 2 * 1024;
  const std::uint64_t sealed_page = 64 + 2 * 512;
  const std::uint64_t open_frame = 90 * open_page;
  const std::uint64_t sealed_frame = 12 * open_page + 78 * sealed_page;
  const std::uint64_t sealed = (500 - 128) / 16 - 1;
  EXPECT_EQ(allocator->AllocatedSlots(0), 512);
  EXPECT_EQ(allocator->FilledBytes(),
            sealed * sealed_frame + (500 - sealed * 16) * (open_frame / 16));
  EXPECT_LT(allocator->ExternalSlots(), 512 * 0.01);
}

TEST(BenchWasteAllocatorsTest, MemoryThatDoesNotSufficeIsAnError) {
  for (const NamedAllocator& row : AllAllocators()) {
    AllocatorSpec spec = Spec("f16", "f16");
    spec.memory_bytes = 2 << 20;
    const auto allocator = row.make(spec);
    ASSERT_TRUE(allocator.ok());
    Status status = (*allocator)->Start(0, {200, 200});
    if (status.ok()) status = (*allocator)->Append(0, 200);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << row.name;
  }
}

TEST(BenchWasteAllocatorsTest, UnknownNamesAreRefusedWithTheList) {
  EXPECT_EQ(ListAllocators({{"all"}})->size(), AllAllocators().size());
  EXPECT_EQ(ListAllocators({{"contiguous_pow2", "paged"}})->front().name,
            std::string("contiguous_pow2"));
  const Status status = ListAllocators({{"paged", "slab"}}).status();
  EXPECT_EQ(status.message(),
            "allocators are some of paged, contiguous_max, contiguous_pow2, contiguous_exact, all, "
            "not: slab");
}

TEST(ReservationPoolTest, TakesTheFirstHoleThatFitsAndTrimsOnlyItsEnd) {
  auto created = ReservationPool::Create(64 << 20);
  ASSERT_TRUE(created.ok());
  ReservationPool pool = std::move(*created);
  const auto resident = [&] { return ResidentBytes(pool.range().data(), 64 << 20).value(); };
  const std::uint64_t page = OsPageBytes();
  const std::uint64_t a = pool.Take(10 * page).value();
  const std::uint64_t b = pool.Take(600 * page).value();
  const std::uint64_t c = pool.Take(5 * page).value();
  EXPECT_EQ(std::vector({a, b, c}), std::vector({std::uint64_t{0}, 10 * page, 610 * page}));
  EXPECT_EQ(resident(), 615 * page);
  pool.GiveBack(b);
  pool.Trim();
  EXPECT_EQ(pool.hole_bytes(), 600 * page);
  EXPECT_EQ(resident(), 615 * page) << "a hole was given back";
  EXPECT_EQ(pool.Take(601 * page).value(), 615 * page);
  EXPECT_EQ(pool.Take(600 * page).value(), 10 * page);
  EXPECT_EQ(pool.hole_bytes(), 0U);
  pool.GiveBack(615 * page);
  pool.GiveBack(c);
  EXPECT_EQ(resident(), 1216 * page);
  pool.Trim();
  EXPECT_EQ(resident(), 610 * page);
  const auto refused = pool.Take(64 << 20);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), EndsWith("beyond: 67108864"));
}

}  // namespace
}  // namespace swiftkv
