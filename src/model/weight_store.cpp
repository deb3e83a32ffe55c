// SPDX-License-Identifier: Apache-2.0
// Implements placing and loading of weights.
#include "model/weight_store.h"

#include <algorithm>
#include <map>

#include "base/status_macros.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "model/weight_buffers.h"
#include "model/weight_check.h"

namespace swiftkv {
namespace {

constexpr std::uint64_t kPopulateBytes = 32ULL << 20;  // between two calls of progress
constexpr std::uint64_t kMappedAlignment = 32;         // ggml's for tensors

// Where one slot's weight goes. `buffer_type` null: it stays in the mapping.
struct Placement {
  const WeightSlot* slot = nullptr;
  const GgufTensor* source = nullptr;
  ggml_backend_buffer_type_t buffer_type = nullptr;
  ggml_tensor* tensor = nullptr;
};

}  // namespace

struct WeightStore::State {
  std::vector<std::shared_ptr<MappedFile>> shards;
  std::vector<ggml_context_ptr> contexts;               // records of tensors
  std::vector<ggml_backend_buffer_ptr> mapped_buffers;  // one per shard
  std::vector<ggml_backend_buffer_ptr> private_buffers;
  std::uint64_t mapped_bytes = 0;
  std::uint64_t private_bytes = 0;
};

// Fills a State from a file; gone after loading.
class WeightStore::Loader {
 public:
  Loader(const GgufFile& file, State* state) : file_(file), state_(*state) {}

  Status Place(std::span<const WeightSlot> slots, const WeightOptions& options);
  Status MapShards();
  Status CreateTensors();
  Status Fill(const std::function<bool(double)>& progress);

 private:
  Status FillMapped(const Placement& placement, const std::function<Status(std::uint64_t)>& done);
  Status FillPrivate(const Placement& placement);

  const GgufFile& file_;
  State& state_;
  std::vector<Placement> placements_;
};

Status WeightStore::Loader::Place(std::span<const WeightSlot> slots, const WeightOptions& options) {
  SKV_RETURN_IF_ERROR(CheckWeights(file_, slots));
  const std::vector<ggml_backend_buffer_type_t> extra =
      options.use_extra_buffers ? ExtraBufferTypes() : std::vector<ggml_backend_buffer_type_t>();
  for (const WeightSlot& slot : slots) {
    const GgufTensor* tensor = file_.FindTensor(slot.name);
    if (tensor == nullptr) continue;  // an optional one
    Placement placement;
    placement.slot = &slot;
    placement.source = tensor;
    const bool as_it_lies = tensor->offset % kMappedAlignment == 0 &&
                            (slot.use != WeightUse::kVector || tensor->type == GGML_TYPE_F32);
    if (!as_it_lies) placement.buffer_type = ggml_backend_cpu_buffer_type();
    const LinearShape shape = {static_cast<ggml_type>(tensor->type), slot.columns, slot.rows};
    const bool stays = options.linear != nullptr && options.linear->WantsAsItLies(shape);
    if (slot.use == WeightUse::kMatrix && !stays) {
      const auto found = std::find_if(extra.begin(), extra.end(),
                                      [&](auto type) { return CanMultiplyIn(type, *tensor); });
      if (found != extra.end()) placement.buffer_type = *found;
    }
    placements_.push_back(placement);
  }
  return Status::Ok();
}

Status WeightStore::Loader::MapShards() {
  for (int i = 0; i < file_.num_shards(); ++i) {
    const auto& shard = state_.shards.emplace_back(file_.shard(i));
    SKV_RETURN_IF_ERROR(shard->Map());
    SKV_RETURN_IF_ERROR(shard->CheckSize());
    // ggml's buffers are typed writable; nothing writes to weights.
    auto* bytes = const_cast<std::byte*>(shard->bytes().data());
    state_.mapped_buffers.emplace_back(
        ggml_backend_cpu_buffer_from_ptr(bytes, shard->bytes().size()));
    ggml_backend_buffer_set_usage(state_.mapped_buffers.back().get(),
                                  GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  }
  return Status::Ok();
}

Status WeightStore::Loader::CreateTensors() {
  std::map<ggml_backend_buffer_type_t, ggml_context*> context_of;  // null key: mapped
  for (Placement& placement : placements_) {
    ggml_context*& context = context_of[placement.buffer_type];
    if (context == nullptr) {
      state_.contexts.emplace_back(
          ggml_init({placements_.size() * ggml_tensor_overhead(), nullptr, /*no_alloc=*/true}));
      context = state_.contexts.back().get();
    }
    const auto type = placement.slot->use == WeightUse::kVector
                          ? GGML_TYPE_F32
                          : static_cast<ggml_type>(placement.source->type);
    placement.tensor =
        placement.slot->use == WeightUse::kVector
            ? ggml_new_tensor_1d(context, type, placement.slot->columns)
            : ggml_new_tensor_2d(context, type, placement.slot->columns, placement.slot->rows);
    ggml_set_name(placement.tensor, placement.slot->name.c_str());
    *placement.slot->target = placement.tensor;
  }
  for (const auto& [type, context] : context_of) {
    if (type == nullptr) continue;
    state_.private_buffers.emplace_back(ggml_backend_alloc_ctx_tensors_from_buft(context, type));
    if (state_.private_buffers.back() == nullptr) {
      return Status::ResourceExhausted(std::string("not enough memory for weights in the layout ") +
                                       ggml_backend_buft_name(type) +
                                       "; use a smaller model or turn repacked weights off");
    }
    ggml_backend_buffer_set_usage(state_.private_buffers.back().get(),
                                  GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    state_.private_bytes += ggml_backend_buffer_get_size(state_.private_buffers.back().get());
  }
  return Status::Ok();
}

Status WeightStore::Loader::Fill(const std::function<bool(double)>& progress) {
  std::uint64_t total = 0;
  for (const Placement& placement : placements_) total += placement.source->bytes;
  std::uint64_t filled = 0;
  const auto done = [&](std::uint64_t bytes) {
    filled += bytes;
    const double fraction = static_cast<double>(filled) / static_cast<double>(total);
    if (progress == nullptr || progress(fraction)) return Status::Ok();
    return Status::Cancelled("loading of the model was cancelled");
  };
  // In file order, so that a disk reads forward.
  std::vector<const Placement*> order;
  for (const Placement& placement : placements_) order.push_back(&placement);
  std::stable_sort(order.begin(), order.end(), [](const Placement* a, const Placement* b) {
    return std::pair(a->source->shard, a->source->offset) <
           std::pair(b->source->shard, b->source->offset);
  });
  const GgufTensor* counted = nullptr;  // a tied embedding is mapped once, for two slots
  for (const Placement* placement : order) {
    if (placement->buffer_type != nullptr) {
      SKV_RETURN_IF_ERROR(FillPrivate(*placement));
      SKV_RETURN_IF_ERROR(done(placement->source->bytes));
      continue;
    }
    SKV_RETURN_IF_ERROR(FillMapped(*placement, done));
    if (counted != placement->source) state_.mapped_bytes += placement->source->bytes;
    counted = placement->source;
  }
  return Status::Ok();
}

Status WeightStore::Loader::FillMapped(const Placement& placement,
                                       const std::function<Status(std::uint64_t)>& done) {
  const GgufTensor& source = *placement.source;
  const MappedFile& shard = *state_.shards[static_cast<std::size_t>(source.shard)];
  ggml_backend_buffer_t buffer =
      state_.mapped_buffers[static_cast<std::size_t>(source.shard)].get();
  auto* base = static_cast<std::byte*>(ggml_backend_buffer_get_base(buffer));
  ggml_backend_tensor_alloc(buffer, placement.tensor, base + source.offset);
  for (std::uint64_t at = 0; at < source.bytes; at += kPopulateBytes) {
    const std::uint64_t bytes = std::min(kPopulateBytes, source.bytes - at);
    SKV_RETURN_IF_ERROR(shard.CheckSize());
    shard.Populate(source.offset + at, bytes);
    SKV_RETURN_IF_ERROR(done(bytes));
  }
  return Status::Ok();
}

// The layouts of extra buffer types are made of whole tensors, so that one is read at a time, from
// the mapping, whose pages are then given back.
Status WeightStore::Loader::FillPrivate(const Placement& placement) {
  const GgufTensor& source = *placement.source;
  const MappedFile& shard = *state_.shards[static_cast<std::size_t>(source.shard)];
  SKV_RETURN_IF_ERROR(shard.CheckSize());
  const std::byte* data = shard.bytes().data() + source.offset;
  if (placement.slot->use == WeightUse::kVector && source.type != GGML_TYPE_F32) {
    std::vector<float> values(static_cast<std::size_t>(placement.slot->columns));
    ggml_get_type_traits(static_cast<ggml_type>(source.type))
        ->to_float(data, values.data(), placement.slot->columns);
    ggml_backend_tensor_set(placement.tensor, values.data(), 0, values.size() * sizeof(float));
  } else {
    ggml_backend_tensor_set(placement.tensor, data, 0, source.bytes);
  }
  shard.Drop(source.offset, source.bytes);
  return Status::Ok();
}

Result<std::unique_ptr<WeightStore>> WeightStore::Load(const GgufFile& file,
                                                       std::span<const WeightSlot> slots,
                                                       const WeightOptions& options) {
  auto state = std::make_unique<State>();
  Loader loader(file, state.get());
  SKV_RETURN_IF_ERROR(loader.Place(slots, options));
  SKV_RETURN_IF_ERROR(loader.MapShards());
  SKV_RETURN_IF_ERROR(loader.CreateTensors());
  SKV_RETURN_IF_ERROR(loader.Fill(options.progress));
  return std::unique_ptr<WeightStore>(new WeightStore(std::move(state)));
}

WeightStore::WeightStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
WeightStore::~WeightStore() = default;

std::uint64_t WeightStore::mapped_bytes() const { return state_->mapped_bytes; }
std::uint64_t WeightStore::private_bytes() const { return state_->private_bytes; }

Status WeightStore::CheckFiles() const {
  for (const auto& shard : state_->shards) SKV_RETURN_IF_ERROR(shard->CheckSize());
  return Status::Ok();
}

}  // namespace swiftkv
