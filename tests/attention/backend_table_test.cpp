// SPDX-License-Identifier: Apache-2.0
// Tests how backends are found and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "attention/tile_permission.h"
#include "base/cpu_features.h"
#include "formats/codec_table.h"
#include "swiftkv/attention.h"

namespace swiftkv {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

PageFormat F16() {
  const PageCodec* codec = FindCodec("f16").value();
  return {codec, codec};
}

constexpr AttentionShape kShape{.num_heads = 4, .num_kv_heads = 2, .head_dim = 64, .scale = 0.125F};

TEST(AttentionBackendTableTest, NamesAreDistinctAndEachRowMakesABackendOfItsName) {
  std::set<std::string> names;
  for (const BackendRow& row : AllAttentionBackends()) {
    EXPECT_TRUE(names.insert(row.info.name).second);
    Result<std::unique_ptr<AttentionBackend>> made = MakeAttentionBackend(row.info.name, "auto");
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_STREQ((*made)->info().name, row.info.name);
  }
}

TEST(AttentionBackendTableTest, UnknownBackendIsRefusedWithTheListOfNames) {
  const auto made = MakeAttentionBackend("warp", "auto");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(made.status().message(), AllOf(HasSubstr("reference, cpu"), EndsWith("warp")));
}

TEST(AttentionBackendTableTest, UnknownInstructionSetIsRefusedWithTheListOfNames) {
  const auto made = MakeAttentionBackend("cpu", "sse9");
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.status().message(), AllOf(HasSubstr("portable"), HasSubstr("avx2"),
                                             HasSubstr("avx512"), HasSubstr("sse9")));
}

TEST(AttentionBackendTableTest, InstructionSetsOfThisMachineCanAllBeAskedFor) {
  for (const Isa isa : AllIsas()) {
    const auto made = MakeAttentionBackend("cpu", IsaName(isa));
    const bool allowed = isa != Isa::kAmx || RequestTilePermission().ok();
    EXPECT_EQ(made.ok(), Runs(HostCpu(), isa) && allowed) << IsaName(isa);
    if (!made.ok()) {
      EXPECT_EQ(made.status().code(), StatusCode::kUnsupported);
    }
  }
}

TEST(CpuBackendTest, RefusesHeadSizesAndGroupsThatItDoesNotComputeByNumber) {
  const auto made = MakeAttentionBackend("cpu", "portable");
  ASSERT_TRUE(made.ok());
  const AttentionBackend& backend = **made;
  EXPECT_TRUE(backend.Serves(kShape, F16()).ok());

  for (const int head_dim : {8, 72, 272}) {
    AttentionShape shape = kShape;
    shape.head_dim = head_dim;
    const Status status = backend.Serves(shape, F16());
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), EndsWith(std::to_string(head_dim)));
  }
  AttentionShape shape = kShape;
  shape.num_heads = 98;
  EXPECT_THAT(backend.Serves(shape, F16()).message(), EndsWith("49"));
}

TEST(CpuBackendTest, RefusesShapesWithoutMeaning) {
  const auto made = MakeAttentionBackend("cpu", "portable");
  ASSERT_TRUE(made.ok());
  AttentionShape shape = kShape;
  shape.num_heads = 5;
  EXPECT_EQ((*made)->Serves(shape, F16()).code(), StatusCode::kInvalidArgument);
  shape = kShape;
  shape.window = -1;
  EXPECT_EQ((*made)->Serves(shape, F16()).code(), StatusCode::kInvalidArgument);
  shape = kShape;
  shape.num_kv_heads = 0;
  EXPECT_EQ((*made)->Serves(shape, F16()).code(), StatusCode::kInvalidArgument);
}

TEST(ReferenceBackendTest, HasNoInstructionSetToChoose) {
  EXPECT_TRUE(MakeAttentionBackend("reference", "portable").ok());
  EXPECT_THAT(MakeAttentionBackend("reference", "avx512").status().message(), EndsWith("avx512"));
}

}  // namespace
}  // namespace swiftkv
