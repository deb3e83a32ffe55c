// SPDX-License-Identifier: Apache-2.0
// Drives caches with random operations and compares them with a slow model after each.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cache/modelled_cache.h"
#include "formats/page_format_table.h"
#include "support/sanitizers.h"

namespace swiftkv {
namespace {

// How sequences come, go and grow.
struct Mix {
  std::size_t most_sequences;
  int releases;  // of 100 operations, at most 10
  int prefill;   // most tokens of one step
  int cut;       // most tokens of a long cut
};

constexpr Mix kManySequences = {.most_sequences = 1000, .releases = 10, .prefill = 70, .cut = 200};
constexpr Mix kSomeSequences = {.most_sequences = 60, .releases = 8, .prefill = 70, .cut = 200};
// Long enough for formats that seal old blocks.
constexpr Mix kLongSequences = {.most_sequences = 5, .releases = 2, .prefill = 150, .cut = 250};

struct PropertyCase {
  TestGeometry geometry;
  std::vector<KvFormat> formats;  // the first is the cache's own; sequences draw from all
  std::uint64_t memory_bytes;
  int operations;
  Mix mix = kManySequences;

  friend void PrintTo(const PropertyCase& item, std::ostream* out) {
    *out << item.geometry.name << " in " << item.memory_bytes << " bytes";
  }
};

KvFormat Both(const char* name) { return {name, name}; }

std::string CaseName(const testing::TestParamInfo<PropertyCase>& instance) {
  std::string name = instance.param.geometry.name;
  for (const KvFormat& format : instance.param.formats) {
    name += "_" + (format.key == format.value ? format.key : format.key + "_" + format.value);
  }
  return name;
}

class KvCachePropertyTest : public testing::TestWithParam<PropertyCase> {
 protected:
  KvCachePropertyTest()
      : subject_(GetParam().geometry, GetParam().formats, GetParam().memory_bytes) {}

  int Draw(int end) { return static_cast<int>(random_() % static_cast<unsigned>(end)); }

  SequenceId AnySequence() {
    const std::vector<SequenceId>& ids = subject_.sequences();
    return ids[static_cast<std::size_t>(Draw(static_cast<int>(ids.size())))];
  }

  void Step(int reserve, int commit) {
    const SequenceId id = AnySequence();
    std::vector<std::uint32_t> seeds;
    for (int i = 0; i < reserve; ++i) seeds.push_back(next_stamp_++);
    subject_.Step(id, seeds, commit);
  }

  void Truncate(int most) {
    const SequenceId id = AnySequence();
    const int back = Draw(4) == 0 ? Draw(most) : Draw(20);
    subject_.Truncate(id, std::max(0, subject_.Length(id) - back));
  }

  void Operate(const Mix& mix) {
    const int kind = Draw(100);
    const std::size_t sequences = subject_.sequences().size();
    SequenceId created;
    if (sequences == 0 || (kind < 8 && sequences < mix.most_sequences)) {
      const int formats = static_cast<int>(GetParam().formats.size());
      subject_.Create(static_cast<std::size_t>(Draw(formats)), &created);
    } else if (kind < 20 && sequences < mix.most_sequences) {
      subject_.Fork(AnySequence());
    } else if (kind < 20 + mix.releases) {
      subject_.Release(AnySequence());
    } else if (kind < 40) {
      Truncate(mix.cut);
    } else if (kind < 80) {
      Step(1, 1);  // decode
    } else if (kind < 95) {
      const int tokens = 1 + Draw(mix.prefill);
      Step(tokens, tokens);
    } else {
      const int tokens = 1 + Draw(40);
      Step(tokens, Draw(tokens + 1));  // drafts that were partly refused
    }
  }

  void Run(const Mix& mix) {
    const KvBalance initial = subject_.cache().Balance();
    for (int operation = 0; operation < GetParam().operations; ++operation) {
      Operate(mix);
      const bool everything = operation % 16 == 0;
      subject_.Check(
          [&](int) { return everything || Draw(2 * subject_.cache().num_layers()) == 0; });
      if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "after operation " << operation;
    }
    Finish(initial);
  }

  // As many operations as a test has time for: after each the bound is looked at and some pages are
  // read; after every thousand everything is recounted and read.
  void RunLong() {
    const KvBalance initial = subject_.cache().Balance();
    for (int operation = 1; operation <= GetParam().operations; ++operation) {
      Operate(GetParam().mix);
      subject_.CheckBound();
      for (int i = 0; i < 3 && !subject_.sequences().empty(); ++i) {
        const int layer = Draw(subject_.cache().num_layers());
        subject_.ReadPage(AnySequence(), layer, static_cast<std::uint32_t>(random_()));
      }
      if (operation % 1000 == 0) subject_.CheckAll();
      if (operation % 5000 == 0) subject_.CheckResident();
      if (HasFailure()) FAIL() << "after operation " << operation;
    }
    Finish(initial);
  }

  void Finish(const KvBalance& initial) {
    EXPECT_GT(subject_.counts().forks, 0);
    EXPECT_GT(subject_.counts().refusals, 0) << "the bound was never met: the case proves little";
    subject_.CheckAll();
    while (!subject_.sequences().empty()) {
      subject_.Release(AnySequence());
      subject_.cache().CheckInvariants();
    }
    const KvBalance end = subject_.cache().Balance();
    if (GetParam().formats.size() == 1) {  // further formats keep their layouts
      EXPECT_EQ(end.mapped_bytes, initial.mapped_bytes) << "released bytes did not all come back";
    }
    EXPECT_LE(end.metadata_bytes, initial.metadata_bytes + 4096);
    EXPECT_EQ(end.live_private_bytes + end.live_shared_bytes + end.free_bytes, 0U);
  }

  std::mt19937 random_{1};
  std::uint32_t next_stamp_ = 1;  // no two tokens have the same
  ModelledCache subject_;
};

TEST_P(KvCachePropertyTest, RandomOperationsKeepContentsCountsAndTheBound) { Run(kManySequences); }

INSTANTIATE_TEST_SUITE_P(
    Geometries, KvCachePropertyTest,
    testing::Values(
        PropertyCase{OneSmallHead(), {Both("f16")}, 200 << 10, 1500},
        PropertyCase{OneSmallHead(), {Both("f32")}, 200 << 10, 1000},
        PropertyCase{OneSmallHead(), {Both("f16"), Both("f32"), {"f32", "f16"}}, 300 << 10, 1200},
        PropertyCase{ThreeHeads(), {Both("bf16")}, 1 << 20, 600},
        PropertyCase{ThreeHeads(), {Both("int8"), Both("fp8_e4m3"), Both("f16")}, 600 << 10, 400},
        PropertyCase{ShortWindow(), {Both("f16")}, 300 << 10, 1200},
        PropertyCase{ShortWindow(), {Both("f32"), Both("bf16"), Both("f16")}, 400 << 10, 1000},
        PropertyCase{AllSliding(), {Both("f16")}, 200 << 10, 1200},
        PropertyCase{EqualFrames(), {Both("bf16")}, 300 << 10, 800},
        PropertyCase{SmolLm2(), {Both("f16")}, 12 << 20, 300},
        PropertyCase{Gemma3(), {Both("f16")}, 14 << 20, 300}),
    CaseName);

// Formats that seal old blocks, in bounds so tight that sealing fails at times.
class KvCacheSealingPropertyTest : public KvCachePropertyTest {};

TEST_P(KvCacheSealingPropertyTest, SealedBlocksHoldWhatTheirTokensWentThroughAndAreOneCopy) {
  Run(kLongSequences);
  EXPECT_GT(subject_.counts().seals, 10);
  EXPECT_GT(subject_.counts().reopenings, 0);
  EXPECT_GT(subject_.counts().deferred, 0) << "sealing never lacked memory";
  EXPECT_GT(subject_.counts().twins, 0) << "no sealed block was ever shared";
}

// A million operations in all.
class KvCacheLongPropertyTest : public KvCachePropertyTest {};

TEST_P(KvCacheLongPropertyTest, ManyOperationsLeaveEveryPageToItsOwnerWithinTheBound) {
  RunLong();
  EXPECT_GT(subject_.counts().forks, GetParam().operations / 50);
  EXPECT_LT(subject_.counts().refusals, GetParam().operations / 2);
}

// Sanitizers watch a tenth of them.
constexpr int Thousands(int count) { return count * (kSanitized ? 100 : 1000); }

INSTANTIATE_TEST_SUITE_P(
    Geometries, KvCacheLongPropertyTest,
    testing::Values(
        PropertyCase{OneSmallHead(), {Both("f16")}, 300 << 10, Thousands(350), kSomeSequences},
        PropertyCase{OneSmallHead(),
                     {Both("f16"), Both("int8"), Both("f32")},
                     400 << 10,
                     Thousands(200),
                     kSomeSequences},
        PropertyCase{
            EqualFrames(), {Both("bf16"), Both("f16")}, 1 << 20, Thousands(150), kSomeSequences},
        PropertyCase{ShortWindow(), {Both("f16")}, 700 << 10, Thousands(100), kSomeSequences},
        PropertyCase{
            AllSliding(), {Both("f32"), Both("f16")}, 600 << 10, Thousands(100), kSomeSequences},
        PropertyCase{SixLayers(),
                     {Both("int4"), Both("f16"), {"int8", "int4"}},
                     600 << 10,
                     Thousands(50),
                     kLongSequences},
        PropertyCase{LongWindow(), {Both("int4")}, 500 << 10, Thousands(50), kLongSequences}),
    CaseName);

INSTANTIATE_TEST_SUITE_P(
    Formats, KvCacheSealingPropertyTest,
    testing::Values(
        PropertyCase{SixLayers(), {Both("int4")}, 400 << 10, 1500},
        PropertyCase{SixLayers(), {{"int8", "int4"}, Both("int8"), Both("f16")}, 600 << 10, 1500},
        PropertyCase{SixLayers(), {Both("f16"), Both("int4"), {"f16", "int4"}}, 700 << 10, 1500},
        PropertyCase{LongWindow(), {Both("int4")}, 500 << 10, 1500},
        PropertyCase{LongWindow(), {Both("int4"), {"int4", "fp8_e4m3"}}, 600 << 10, 1500}),
    CaseName);

// Every named format with every fill of the last page: before and after blocks are sealed, cut
// within a sealed block and opened again.
TEST(KvCacheFillTest, EveryFormatHoldsEveryFillOfAPage) {
  for (const NamedPageFormat& row : AllPageFormats()) {
    const KvFormat format = {row.format.key->info().name, row.format.value->info().name};
    ModelledCache subject(SixLayers(), {format}, 4 << 20);
    std::uint32_t seed = 0;
    const auto append = [&](SequenceId id, int count) {
      std::vector<std::uint32_t> seeds;
      for (int i = 0; i < count; ++i) seeds.push_back(++seed);
      subject.Step(id, seeds, count);
    };
    for (int fill = 1; fill <= kPageTokens; ++fill) {
      SequenceId id;
      ASSERT_TRUE(subject.Create(0, &id));
      append(id, fill);
      subject.CheckAll();
      append(id, 192);
      subject.CheckAll();
      subject.Truncate(id, 32 + fill);
      subject.CheckAll();
      append(id, 1);
      subject.CheckAll();
      subject.Release(id);
      ASSERT_FALSE(testing::Test::HasFailure()) << row.name << ", fill " << fill;
    }
    EXPECT_EQ(subject.counts().deferred, 0);
    EXPECT_EQ(subject.counts().refusals, 0);
  }
}

}  // namespace
}  // namespace swiftkv
