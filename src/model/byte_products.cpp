// SPDX-License-Identifier: Apache-2.0
// Cuts byte products into strips of outputs and chunks of inputs for the kernels.
#include "model/byte_products.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace swiftkv {
namespace {

// Up to as many rows one strip at a time is faster: weights come from memory, and the fewer outputs
// are read side by side, the longer are the runs.
constexpr std::int64_t kFewRows = 8;

// Up to kFewRows the strip after this one is fetched into the first cache and the one after that
// into the second, so that memory never waits; many rows leave time enough to fetch the next strips
// into the second cache only, where they disturb nothing. Memory works evenly when prefetches are
// spread over unpacking and multiplying, which take equally long with about four rows: up to
// kUnpackRows unpacking prefetches all lines, beyond kFewRows multiplying does, and between each
// does one half.
constexpr std::int64_t kUnpackRows = 2;
constexpr int kLine = 64;  // bytes

// Blocks of the chunk of inputs that begins when `left` are left. A short chunk pays much for its
// sums, so that a short rest is not left alone.
constexpr int kChunkBlocks = 16;
int ChunkAt(int left) { return left <= kMostChunkBlocks ? left : kChunkBlocks; }

// A step over outputs: strips whose unpacked weights all rows are multiplied with.
struct Step {
  std::int64_t first_output;  // of the strips; may lie before the outputs wanted
  int strips;
  std::uint32_t lanes;  // the outputs wanted
};

// Returns the step that starts at `output`. The last strip of a matrix is moved back so that all
// its outputs exist.
Step StepAt(std::int64_t output, std::int64_t last, std::int64_t outputs, int most_strips) {
  const std::int64_t wanted =
      std::min<std::int64_t>(last - output, std::int64_t{most_strips} * kStripOutputs);
  int strips = static_cast<int>((wanted + kStripOutputs - 1) / kStripOutputs);
  std::int64_t first = std::min(output, outputs - strips * kStripOutputs);
  if (first < 0) {  // a matrix smaller than the strips of a step
    strips = 1;
    first = std::min(output, outputs - kStripOutputs);
  }
  const std::int64_t skipped = output - first;
  const std::int64_t count = std::min<std::int64_t>(wanted, strips * kStripOutputs - skipped);
  const std::uint64_t lanes = ((std::uint64_t{1} << count) - 1) << skipped;
  return {first, strips, static_cast<std::uint32_t>(lanes)};
}

// The weights of a range as a list of strips in the order in which they are read, the caller's next
// ones behind them.
struct StripList {
  const std::byte* weights;  // the first strip
  std::int64_t strips;
  std::int64_t strip_bytes;
  const std::byte* next;
  std::int64_t next_bytes;

  // Returns where strip `index` begins; null past the end.
  const std::byte* At(std::int64_t index) const {
    if (index < strips) return weights + index * strip_bytes;
    const std::int64_t offset = (index - strips) * strip_bytes;
    return next != nullptr && offset < next_bytes ? next + offset : nullptr;
  }
};

const std::byte* Offset(const std::byte* start, std::int64_t bytes) {
  return start == nullptr ? nullptr : start + bytes;
}

// The lines of a run of bytes, null for none, as the two kernels share them with `rows` rows.
struct SharedLines {
  AheadLines unpacking;
  AheadLines multiplying;
};

SharedLines ShareLines(const std::byte* first, std::int64_t bytes, std::int64_t rows) {
  if (first == nullptr) return {};
  const auto lines = static_cast<int>((bytes + kLine - 1) / kLine);
  if (rows <= kUnpackRows) return {{first, lines, kLine}, {}};
  if (rows > kFewRows) return {{}, {first, lines, kLine}};
  return {{first, (lines + 1) / 2, 2 * kLine}, {first + kLine, lines / 2, 2 * kLine}};
}

}  // namespace

bool ServesByteProduct(ggml_type type, std::int64_t inputs, std::int64_t outputs) {
  const ByteFormat* const format = FindByteFormat(type);
  return format != nullptr && inputs > 0 && inputs % format->block_inputs == 0 &&
         outputs >= kStripOutputs;
}

ByteRange ShareOfOutputs(std::int64_t outputs, std::int64_t rows, int thread, int num_threads) {
  const std::int64_t strips = (outputs + kStripOutputs - 1) / kStripOutputs;
  const std::int64_t first = strips * thread / num_threads * kStripOutputs;
  const std::int64_t last = strips * (thread + 1) / num_threads * kStripOutputs;
  return {first, std::min(last, outputs), 0, rows};
}

void MultiplyBytes(const ByteKernels& kernels, const ByteProduct& product, const ByteRows& rows,
                   const ByteRange& range, void* scratch, const ByteOutput& out) {
  const ByteFormat* const format = FindByteFormat(product.type);
  SKV_CHECK(ServesByteProduct(product.type, product.inputs, product.outputs));
  SKV_CHECK(rows.inputs == product.inputs);
  const std::int64_t num_rows = range.last_row - range.first_row;
  const std::int64_t num_outputs = range.last_output - range.first_output;
  if (num_rows <= 0 || num_outputs <= 0) return;
  const auto unpack = kernels.unpack[static_cast<int>(format->id)];
  const auto multiply = kernels.multiply[static_cast<int>(format->form)];
  const auto* const weights = static_cast<const std::byte*>(product.weights);
  const std::int64_t strip_bytes = kStripOutputs * product.row_bytes;
  const StripList list = {weights + range.first_output * product.row_bytes,
                          (num_outputs + kStripOutputs - 1) / kStripOutputs, strip_bytes,
                          static_cast<const std::byte*>(range.next), range.next_bytes};
  auto* const unpacked = static_cast<UnpackedBlock*>(scratch);
  const auto row_blocks = static_cast<int>(rows.row_blocks());
  const bool few = num_rows <= kFewRows;
  const int most_strips = few ? 1 : kMostStrips;

  for (std::int64_t output = range.first_output; output < range.last_output;) {
    const Step step = StepAt(output, range.last_output, product.outputs, most_strips);
    const std::byte* const first = weights + step.first_output * product.row_bytes;
    const std::int64_t index = (output - range.first_output) / kStripOutputs;
    for (int block = 0, blocks = 0; block < row_blocks; block += blocks) {
      blocks = ChunkAt(row_blocks - block);
      const std::int64_t offset =
          std::int64_t{block} * kByteBlock / format->block_inputs * format->block_bytes;
      const std::int64_t bytes = std::int64_t{blocks} * kByteBlock / format->block_inputs *
                                 format->block_bytes * kStripOutputs;
      SharedLines later[kMostStrips] = {};
      for (int strip = 0; strip < step.strips; ++strip) {
        const std::int64_t next = index + step.strips + strip;
        const std::byte* const soon = few ? list.At(next) : nullptr;
        const std::byte* const second = list.At(few ? next + 1 : next);
        later[strip] = ShareLines(Offset(second, offset * kStripOutputs), bytes, num_rows);
        unpack({first + strip * strip_bytes + offset, product.row_bytes, blocks,
                Offset(soon, offset * kStripOutputs), later[strip].unpacking},
               unpacked + strip * blocks);
      }
      multiply({.weights = unpacked,
                .strips = step.strips,
                .blocks = blocks,
                .zero_shift = format->zero_shift,
                .rows = rows.blocks + range.first_row * row_blocks + block,
                .row_blocks = row_blocks,
                .num_rows = num_rows,
                .out = out.values + range.first_row * out.stride + step.first_output,
                .out_stride = out.stride,
                .lanes = step.lanes,
                .accumulate = block > 0,
                .later = {later[0].multiplying, later[1].multiplying}});
    }
    output += std::popcount(step.lanes);
  }
}

const ByteKernels* FindByteKernels(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512Vnni) return Avx512VnniByteKernels();
#endif
  return nullptr;
}

}  // namespace swiftkv
