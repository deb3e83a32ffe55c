// SPDX-License-Identifier: Apache-2.0
// Drives caches with random forks, appends, compactions at once and in pieces, adoptions, cuts,
// pins and releases.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cache/random_segments.h"
#include "support/sanitizers.h"

namespace swiftkv {
namespace {

// How many operations each case does; 125000 make a million in a minute or two.
constexpr const char* kOperationsVariable = "SWIFTKV_SEGMENT_OPERATIONS";

int Operations() {
  const char* const wanted = std::getenv(kOperationsVariable);
  if (wanted != nullptr) return std::atoi(wanted);
  return kSanitized ? 150 : 1000;
}

struct PropertyCase {
  TestGeometry geometry;
  std::vector<KvFormat> formats;  // as in Settings
  std::uint64_t memory_bytes;
  bool keeps_headroom;
  // Of a row that may go back and forth between formats of few bits; a wrong one is at 1.4.
  double tolerance;

  friend void PrintTo(const PropertyCase& item, std::ostream* out) {
    *out << item.geometry.name << " in " << item.memory_bytes << " bytes";
  }
};

const std::vector<PropertyCase>& Cases() {
  static const std::vector<PropertyCase> cases = {
      {OneSmallHead(), {{"f16", "f16"}}, 64 << 20, false, 0},
      {OneSmallHead(), {{"f16", "f16"}}, 220 << 10, true, 0},
      {ThreeHeads(), {{"f16", "f16"}, {"f32", "f32"}}, 1400 << 10, true, 0},
      {ThreeHeads(), {{"f16", "f16"}, {"int8", "int8"}}, 900 << 10, true, 0.03},
      {ShortWindow(), {{"f16", "f16"}, {"f32", "f16"}}, 400 << 10, false, 0},
      {EqualFrames(), {{"f16", "f16"}}, 500 << 10, true, 0},
      {LongWindow(), {{"f16", "f16"}, {"int4", "int4"}}, 1600 << 10, true, 0.8},
      {SixLayers(), {{"int4", "int4"}, {"f16", "f16"}}, 1200 << 10, false, 0.8},
  };
  return cases;
}

// Over all cases of this process that have done enough operations.
struct Sums {
  std::size_t cases = 0;
  int on_top = 0;
  int found_there = 0;
  int found_at_finish = 0;
  int named_at_finish = 0;
  int dropped = 0;
};

class SegmentPropertyTest : public RandomSegments,
                            public testing::WithParamInterface<PropertyCase> {
 protected:
  void CheckAll() {
    cache_->CheckInvariants();
    const KvBalance balance = cache_->Balance();
    ASSERT_LE(balance.peak_bytes, balance.limit_bytes);
    for (const auto& [id, model] : model_) CheckSequence(id);
  }

  void Run() {
    const int operations = Operations();
    const int between = operations > 10000 ? 500 : 25;
    for (int i = 0; i < operations; ++i) {
      RandomOperation();
      if (i % between == 0) CheckAll();
      if (i % 4 == 0 && !model_.empty()) CheckSequence(Any());
      if (HasFailure()) FAIL() << "at operation " << i;
    }
  }

  void Record() {
    RecordProperty("compactions", compactions_);
    RecordProperty("adoptions", adoptions_);
    RecordProperty("on_top", on_top_);
    RecordProperty("found_there", found_there_);
    RecordProperty("begun", coverage_.begun);
    RecordProperty("finished", coverage_.finished);
    RecordProperty("given_up", given_up_);
    RecordProperty("between", coverage_.between);
    RecordProperty("evictions", static_cast<int>(cache_->segment_totals().evictions));
  }

  // Enough for the least likely case, whatever the seed.
  void CheckCoverage() {
    EXPECT_GT(compactions_, Operations() / 40);
    if (Operations() < 1000) return;
    const bool is_tight = GetParam().memory_bytes < 8 << 20;
    EXPECT_EQ(cache_->segment_totals().evictions > 0, is_tight);
    EXPECT_GT(coverage_.between, Operations() / 200);
    EXPECT_GT(coverage_.finished, Operations() / 500);
    if (Operations() < 10000) return;
    EXPECT_GT(adoptions_, 5);
    EXPECT_GT(coverage_.pins, 5);
    EXPECT_GT(given_up_, 20);
    EXPECT_GT(coverage_.grown, 20);
    EXPECT_GT(coverage_.forked, 20);
    EXPECT_GT(coverage_.cut_behind, 5);
    EXPECT_EQ(coverage_.evicted > 20, is_tight);
    ++sums_.cases;
    sums_.on_top += on_top_;
    sums_.found_there += found_there_;
    sums_.found_at_finish += coverage_.found_at_finish;
    sums_.named_at_finish += coverage_.named_at_finish;
    sums_.dropped += coverage_.dropped;
  }

  // What one case alone may see little of.
  static void TearDownTestSuite() {
    if (sums_.cases < Cases().size()) return;
    EXPECT_GT(sums_.on_top, 100);
    EXPECT_GT(sums_.found_there, 40);
    EXPECT_GT(sums_.found_at_finish, 2);
    EXPECT_GT(sums_.named_at_finish, 50);
    EXPECT_GT(sums_.dropped, 10);
  }

  void Finish() {
    while (!model_.empty()) Release(model_.begin()->first);
    EXPECT_TRUE(begun_.empty());
    now_ += 1000;  // no pin is left
    cache_->SetTime(now_);
    cache_->CheckInvariants();
    const KvBalance balance = cache_->Balance();
    EXPECT_EQ(balance.live_private_bytes + balance.live_shared_bytes, 0U);
    EXPECT_EQ(cache_->ReclaimableBytes(), balance.cached_bytes);
    cache_->DropPrefixes();
    cache_->CheckInvariants();
    EXPECT_EQ(cache_->segment_totals().segments, 0U);
    EXPECT_EQ(cache_->Balance().mapped_bytes, cache_->Balance().metadata_bytes);
  }

 private:
  static inline Sums sums_;
};

TEST_P(SegmentPropertyTest, HeadsSeeWhatTheyKeptAndEveryByteHasOnePlace) {
  settings_ = {GetParam().formats, GetParam().tolerance};
  KvCacheOptions options;
  options.layers = GetParam().geometry.layers;
  options.key_format = GetParam().formats[0].key;
  options.value_format = GetParam().formats[0].value;
  options.memory_bytes = GetParam().memory_bytes;
  options.keeps_headroom = GetParam().keeps_headroom;
  options.poison_free_frames = true;
  options.model_fingerprint = "property";
  cache_ = std::move(KvCache::Create(options)).value();
  Run();
  if (HasFailure()) return;
  Record();
  CheckCoverage();
  Finish();
}

INSTANTIATE_TEST_SUITE_P(, SegmentPropertyTest, testing::ValuesIn(Cases()));

}  // namespace
}  // namespace swiftkv
