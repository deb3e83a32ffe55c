// SPDX-License-Identifier: Apache-2.0
// Drives caches with random forks, appends, compactions, adoptions, cuts, pins and releases.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cache/modelled_segments.h"
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

class SegmentPropertyTest : public ModelledSegments,
                            public testing::WithParamInterface<PropertyCase> {
 protected:
  void RandomOperation() {
    const int choice = Below(100);
    if (model_.empty() || (choice < 16 && model_.size() < 8)) {
      Create();
    } else if (choice < 50) {
      Step(Any());
    } else if (choice < 56) {
      AdoptPrefix(Any());
    } else if (choice < 62) {
      Fork(Any());
    } else if (choice < 78) {
      Compact(Any());
    } else if (choice < 84) {
      Truncate(Any());
    } else if (choice < 96) {
      Release(Any());
    } else {
      PinOrDrop(Any());
    }
  }

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

  void Finish() {
    while (!model_.empty()) Release(model_.begin()->first);
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
  const SegmentTotals totals = cache_->segment_totals();
  RecordProperty("compactions", compactions_);
  RecordProperty("adoptions", adoptions_);
  RecordProperty("on_top", on_top_);
  RecordProperty("evictions", static_cast<int>(totals.evictions));
  Finish();
  EXPECT_GT(compactions_, Operations() / 40);
  if (Operations() < 1000) return;
  if (Operations() >= 10000) {
    EXPECT_GT(adoptions_, 5);
    EXPECT_GT(on_top_, 5);
    EXPECT_GT(pins_, 5);
    EXPECT_GT(found_there_, 1);
  }
  const bool is_tight = GetParam().memory_bytes < 8 << 20;
  EXPECT_EQ(totals.evictions > 0, is_tight);
}

INSTANTIATE_TEST_SUITE_P(
    , SegmentPropertyTest,
    testing::Values(
        PropertyCase{OneSmallHead(), {{"f16", "f16"}}, 64 << 20, false, 0},
        PropertyCase{OneSmallHead(), {{"f16", "f16"}}, 220 << 10, true, 0},
        PropertyCase{ThreeHeads(), {{"f16", "f16"}, {"f32", "f32"}}, 1400 << 10, true, 0},
        PropertyCase{ThreeHeads(), {{"f16", "f16"}, {"int8", "int8"}}, 900 << 10, true, 0.03},
        PropertyCase{ShortWindow(), {{"f16", "f16"}, {"f32", "f16"}}, 400 << 10, false, 0},
        PropertyCase{EqualFrames(), {{"f16", "f16"}}, 500 << 10, true, 0},
        PropertyCase{LongWindow(), {{"f16", "f16"}, {"int4", "int4"}}, 1600 << 10, true, 0.8},
        PropertyCase{SixLayers(), {{"int4", "int4"}, {"f16", "f16"}}, 1200 << 10, false, 0.8}));

}  // namespace
}  // namespace swiftkv
