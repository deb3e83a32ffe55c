// SPDX-License-Identifier: Apache-2.0
// Copies rows into a ring by position.
#include "model/recent_queries.h"

#include <algorithm>

#include "base/check.h"

namespace swiftkv {

RecentQueries::RecentQueries(const DecoderSpec& spec, int capacity)
    : spec_(spec), capacity_(capacity), layers_(spec.layers.size()) {
  SKV_CHECK(capacity >= 1);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (spec.layers[i].window > 0) continue;
    layers_[i].row_size = static_cast<std::size_t>(spec.layers[i].num_heads) *
                          static_cast<std::size_t>(spec.head_dim);
    layers_[i].ring.resize(static_cast<std::size_t>(capacity) * layers_[i].row_size);
  }
}

void RecentQueries::Add(const SliceQueries& queries, int thread, int num_threads) {
  Layer& layer = layers_[static_cast<std::size_t>(queries.layer)];
  if (layer.row_size == 0) return;
  const auto head_dim = static_cast<std::size_t>(spec_.head_dim);
  const std::int64_t end = queries.first_position + queries.num_rows;
  for (std::int64_t p = std::max(queries.first_position, end - capacity_); p < end; ++p) {
    const float* const row = queries.turned + static_cast<std::size_t>(p - queries.first_position) *
                                                  queries.turned_stride;
    float* const kept =
        layer.ring.data() + static_cast<std::size_t>(p % capacity_) * layer.row_size;
    for (auto at = static_cast<std::size_t>(thread) * head_dim; at < layer.row_size;
         at += static_cast<std::size_t>(num_threads) * head_dim) {
      std::copy_n(row + at, head_dim, kept + at);
    }
  }
  if (thread != 0) return;
  if (queries.first_position != layer.end) layer.first = queries.first_position;
  layer.end = end;
}

int RecentQueries::count(int layer) const {
  const Layer& held = layers_[static_cast<std::size_t>(layer)];
  return static_cast<int>(std::min(capacity_, held.end - held.first));
}

std::int64_t RecentQueries::first_position(int layer) const {
  return layers_[static_cast<std::size_t>(layer)].end - count(layer);
}

void RecentQueries::Copy(int layer, std::span<float> rows) const {
  const Layer& held = layers_[static_cast<std::size_t>(layer)];
  SKV_CHECK(rows.size() == static_cast<std::size_t>(count(layer)) * held.row_size);
  float* to = rows.data();
  for (std::int64_t p = first_position(layer); p < held.end; ++p, to += held.row_size) {
    std::copy_n(held.ring.data() + static_cast<std::size_t>(p % capacity_) * held.row_size,
                held.row_size, to);
  }
}

std::uint64_t RecentQueries::heap_bytes() const {
  std::uint64_t bytes = layers_.capacity() * sizeof(Layer);
  for (const Layer& layer : layers_) bytes += layer.ring.capacity() * sizeof(float);
  return bytes;
}

}  // namespace swiftkv
