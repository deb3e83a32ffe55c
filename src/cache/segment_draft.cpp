// SPDX-License-Identifier: Apache-2.0
// Checks orders head by head and sorts kept positions by the page format that they go to.
#include "cache/segment_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "cache/format_plan.h"

namespace swiftkv {
namespace {

class Drafter {
 public:
  explicit Drafter(const DraftInputs& inputs)
      : geometry_(*inputs.geometry),
        order_(*inputs.order),
        old_(inputs.old),
        guarded_from_(SealedEnd(inputs.length) * kPageTokens) {}

  Status CheckEnd(std::int64_t length) const {
    const std::int64_t least = old_ == nullptr ? kPageTokens : old_->end;
    if (order_.end >= least && order_.end <= length && order_.end % kPageTokens == 0) {
      return Status::Ok();
    }
    return Status::InvalidArgument(fmt::format(
        "a sequence of {} tokens can be compacted up to a multiple of 16 from {} to {}, not: {}",
        length, least, length / kPageTokens * kPageTokens, order_.end));
  }

  Result<std::unique_ptr<CompressedSegment>> Draft() {
    SKV_RETURN_IF_ERROR(ReadFormats());
    SKV_RETURN_IF_ERROR(ReadHeads());
    segment_->end = order_.end;
    stamps_.assign(static_cast<std::size_t>(order_.end), 0);
    std::size_t at = 0;
    for (int layer = 0; layer < static_cast<int>(geometry_.layers.size()); ++layer) {
      segment_->first_run.push_back(static_cast<std::uint32_t>(segment_->runs.size()));
      const LayerShape& shape = geometry_.layers[static_cast<std::size_t>(layer)];
      for (int head = 0; shape.window == 0 && head < shape.kv_heads; ++head) {
        SKV_RETURN_IF_ERROR(AddHead(*heads_[at++]));
      }
    }
    segment_->first_run.push_back(static_cast<std::uint32_t>(segment_->runs.size()));
    Finish();
    return std::move(segment_);
  }

 private:
  struct Bucket {
    PageFormat format;
    std::vector<std::int32_t> positions;
  };

  Status ReadFormats() {
    if (order_.formats.empty()) {
      return Status::InvalidArgument("a compaction keeps tokens in 1 format or more, not: 0");
    }
    for (const KvFormat& format : order_.formats) {
      SKV_ASSIGN_OR_RETURN(FormatPlan plan,
                           FormatPlan::For(geometry_.layers, format.key, format.value));
      plans_.push_back(std::move(plan));
    }
    return Status::Ok();
  }

  // Puts the heads of the order into the order of runs.
  Status ReadHeads() {
    std::size_t expected = 0;
    first_head_.clear();
    for (const LayerShape& shape : geometry_.layers) {
      first_head_.push_back(expected);
      if (shape.window == 0) expected += static_cast<std::size_t>(shape.kv_heads);
    }
    heads_.assign(expected, nullptr);
    for (const KeptHead& head : order_.heads) {
      const bool is_there =
          head.layer >= 0 && static_cast<std::size_t>(head.layer) < geometry_.layers.size() &&
          geometry_.layers[static_cast<std::size_t>(head.layer)].window == 0 && head.head >= 0 &&
          head.head < geometry_.layers[static_cast<std::size_t>(head.layer)].kv_heads;
      if (!is_there) {
        return Status::InvalidArgument(
            fmt::format("a compaction names heads of layers without a window, not layer {} head: "
                        "{}",
                        head.layer, head.head));
      }
      const KeptHead*& place = heads_[first_head_[static_cast<std::size_t>(head.layer)] +
                                      static_cast<std::size_t>(head.head)];
      if (place != nullptr) {
        return Status::InvalidArgument(
            fmt::format("a compaction names each head once, not twice layer {} head: {}",
                        head.layer, head.head));
      }
      place = &head;
    }
    if (order_.heads.size() == expected && expected > 0) return Status::Ok();
    return Status::InvalidArgument(
        fmt::format("a compaction names all heads of the layers without a window, which are {}, "
                    "and at least 1, not: {}",
                    expected, order_.heads.size()));
  }

  Status AddHead(const KeptHead& head) {
    if (head.positions.size() > plans_.size()) {
      return Status::InvalidArgument(
          fmt::format("layer {} head {} keeps positions in up to {} formats, not: {}", head.layer,
                      head.head, plans_.size(), head.positions.size()));
    }
    MarkHeld(head);
    buckets_.clear();
    for (std::size_t f = 0; f < head.positions.size(); ++f) {
      std::int32_t previous = -1;
      for (const std::int32_t position : head.positions[f]) {
        const bool fits = position > previous && position < order_.end &&
                          stamps_[static_cast<std::size_t>(position)] == held_stamp_;
        if (!fits) {
          return Status::InvalidArgument(
              fmt::format("layer {} head {} keeps positions below {} that it holds, ascending and "
                          "in one format each, not: {}",
                          head.layer, head.head, order_.end, position));
        }
        stamps_[static_cast<std::size_t>(position)] = kTaken;
        previous = position;
        BucketOf(FormatOf(plans_[f], head.layer, position))->positions.push_back(position);
      }
    }
    for (Bucket& bucket : buckets_) {
      std::sort(bucket.positions.begin(), bucket.positions.end());
      AddRun(head, bucket);
    }
    return Status::Ok();
  }

  // Stamps the positions that a head holds.
  void MarkHeld(const KeptHead& head) {
    ++held_stamp_;
    if (old_ == nullptr) {
      std::fill(stamps_.begin(), stamps_.end(), held_stamp_);
      return;
    }
    std::fill(stamps_.begin() + static_cast<std::ptrdiff_t>(old_->end), stamps_.end(), held_stamp_);
    for (const SegmentRun& run : old_->RunsOf(head.layer)) {
      if (run.head != head.head) continue;
      for (const std::int32_t position : old_->PositionsOf(run)) {
        stamps_[static_cast<std::size_t>(position)] = held_stamp_;
      }
    }
  }

  const PageFormat& FormatOf(const FormatPlan& plan, int layer, std::int32_t position) const {
    const bool is_guarded = position < kPageTokens || position >= guarded_from_;
    return (is_guarded ? plan.open : plan.sealed).layer(layer);
  }

  Bucket* BucketOf(const PageFormat& format) {
    for (Bucket& bucket : buckets_) {
      if (bucket.format == format) return &bucket;
    }
    buckets_.push_back({format, {}});
    return &buckets_.back();
  }

  void AddRun(const KeptHead& head, const Bucket& bucket) {
    SegmentRun run;
    run.layer = head.layer;
    run.head = head.head;
    run.format = bucket.format;
    run.layout = PageLayout::For(bucket.format,
                                 geometry_.layers[static_cast<std::size_t>(head.layer)].head_dim);
    run.first_page = num_pages_;
    run.first_token = static_cast<std::uint32_t>(segment_->positions.size());
    run.num_tokens = static_cast<std::uint32_t>(bucket.positions.size());
    num_pages_ += run.num_pages();
    segment_->page_bytes += std::uint64_t{run.num_pages()} * run.layout.bytes;
    segment_->positions.insert(segment_->positions.end(), bucket.positions.begin(),
                               bucket.positions.end());
    segment_->runs.push_back(run);
  }

  void Finish() {
    segment_->frames.assign(num_pages_, Arena::kNoFrame);
    segment_->runs.shrink_to_fit();
    segment_->positions.shrink_to_fit();
    segment_->first_run.shrink_to_fit();
  }

  static constexpr std::uint32_t kTaken = 0;

  const CacheGeometry& geometry_;
  const CompactionOrder& order_;
  const CompressedSegment* const old_;
  const std::int64_t guarded_from_;      // the newest tokens, in positions
  std::vector<FormatPlan> plans_;        // [formats]
  std::vector<std::size_t> first_head_;  // [layers] in heads_
  std::vector<const KeptHead*> heads_;   // of all layers without a window
  std::vector<std::uint32_t> stamps_;    // [end] held_stamp_ where the head holds it
  std::uint32_t held_stamp_ = kTaken;
  std::vector<Bucket> buckets_;
  std::uint32_t num_pages_ = 0;
  std::unique_ptr<CompressedSegment> segment_ = std::make_unique<CompressedSegment>();
};

}  // namespace

Result<std::unique_ptr<CompressedSegment>> DraftSegment(const DraftInputs& inputs) {
  Drafter drafter(inputs);
  SKV_RETURN_IF_ERROR(drafter.CheckEnd(inputs.length));
  return drafter.Draft();
}

std::int64_t HeldTokens(const CacheGeometry& geometry, const CompressedSegment* old,
                        std::int64_t end) {
  const std::int64_t dense = end - (old == nullptr ? 0 : old->end);
  std::int64_t tokens = old == nullptr ? 0 : static_cast<std::int64_t>(old->positions.size());
  for (const LayerShape& shape : geometry.layers) {
    if (shape.window == 0) tokens += dense * shape.kv_heads;
  }
  return tokens;
}

}  // namespace swiftkv
