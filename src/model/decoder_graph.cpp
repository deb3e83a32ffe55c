// SPDX-License-Identifier: Apache-2.0
// Implements the decoder's graph, layer by layer.
#include "model/decoder_graph.h"

#include <array>

#include "base/check.h"
#include "model/attention_nodes.h"

namespace swiftkv {
namespace {

constexpr std::size_t kNodesPerLayer = 57;  // with all options on; views count too
constexpr std::size_t kOtherNodes = 32;

class GraphBuilder {
 public:
  GraphBuilder(const GraphParts& parts, DecoderGraph* target)
      : spec_(parts.spec),
        weights_(parts.weights),
        hooks_(parts.hooks),
        linear_(parts.linear),
        target_(target),
        context_(target->context.get()),
        rows_(target->shape.rows) {}

  void Build();

 private:
  struct Projections {
    ggml_tensor* query = nullptr;  // [head_dim, heads, rows]
    ggml_tensor* key = nullptr;    // [head_dim, kv_heads, rows]
    ggml_tensor* value = nullptr;  // likewise
  };

  bool IsLast(std::size_t layer) const { return layer + 1 == spec_.layers.size(); }

  ggml_tensor* Input(const char* name, int size);
  ggml_tensor* Norm(ggml_tensor* x, ggml_tensor* weight);
  ggml_tensor* Multiply(const Linear& linear, ggml_tensor* x) { return Multiply({&linear, 1}, x); }
  ggml_tensor* Multiply(std::span<const Linear> matrices, ggml_tensor* x);
  ggml_tensor* PickOutputs(ggml_tensor* x);
  bool JoinsProjections(std::size_t layer) const;
  Projections Project(std::size_t layer, bool joined, ggml_tensor* x);
  ggml_tensor* Rotate(std::size_t layer, ggml_tensor* x, bool in_place);
  ggml_tensor* Attention(std::size_t layer, ggml_tensor* x);
  ggml_tensor* FeedForward(std::size_t layer, ggml_tensor* x);
  ggml_tensor* Logits(ggml_tensor* x);

  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  const std::vector<LayerHook>& hooks_;
  LinearLayers& linear_;
  DecoderGraph* target_;
  ggml_context* context_;
  std::int64_t rows_;
};

void GraphBuilder::Build() {
  target_->tokens = Input("tokens", target_->shape.rows);
  target_->positions = Input("positions", target_->shape.rows);
  const int outputs = target_->shape.outputs;
  if (outputs > 0 && outputs < rows_) target_->output_rows = Input("output_rows", outputs);

  // x: [hidden_dim, rows], the residual stream
  ggml_tensor* x = ggml_get_rows(context_, weights_.token_embedding, target_->tokens);
  if (spec_.embedding_scale != 1.0F) x = ggml_scale(context_, x, spec_.embedding_scale);
  for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    ggml_tensor* attended = Attention(layer, x);
    if (IsLast(layer)) {
      if (outputs == 0) {
        ggml_build_forward_expand(target_->graph, attended);
        return;
      }
      x = PickOutputs(x);
    }
    x = ggml_add(context_, attended, x);
    x = ggml_add(context_, FeedForward(layer, x), x);
  }
  target_->logits = Logits(x);
  ggml_set_name(target_->logits, "logits");
  ggml_set_output(target_->logits);
  ggml_build_forward_expand(target_->graph, target_->logits);
}

ggml_tensor* GraphBuilder::Input(const char* name, int size) {
  ggml_tensor* input = ggml_new_tensor_1d(context_, GGML_TYPE_I32, size);
  ggml_set_name(input, name);
  ggml_set_input(input);
  return input;
}

// RMS norm (Zhang and Sennrich 2019); ggml computes both nodes as one.
ggml_tensor* GraphBuilder::Norm(ggml_tensor* x, ggml_tensor* weight) {
  return ggml_mul(context_, ggml_rms_norm(context_, x, spec_.rms_epsilon), weight);
}

ggml_tensor* GraphBuilder::Multiply(std::span<const Linear> matrices, ggml_tensor* x) {
  return linear_.Multiply(context_, matrices, x, &target_->linear_nodes);
}

// Nothing after the last layer's attention is needed for rows whose logits nobody wants.
ggml_tensor* GraphBuilder::PickOutputs(ggml_tensor* x) {
  if (target_->output_rows == nullptr) return x;
  return ggml_get_rows(context_, x, target_->output_rows);
}

// One node computes all three where it can. Norms would give keys rows of their own, with another
// stride than the values', which stores them token by token.
bool GraphBuilder::JoinsProjections(std::size_t layer) const {
  const LayerWeights& weights = weights_.layers[layer];
  if (weights.fused_qkv.weight != nullptr) return true;
  return !spec_.qk_norm && linear_.CanJoin(std::array{weights.query, weights.key, weights.value},
                                           static_cast<int>(rows_));
}

GraphBuilder::Projections GraphBuilder::Project(std::size_t layer, bool joined, ggml_tensor* x) {
  const DecoderLayerSpec& shape = spec_.layers[layer];
  const LayerWeights& weights = weights_.layers[layer];
  const std::int64_t head_dim = spec_.head_dim;
  if (!joined) {
    const auto project = [&](const Linear& linear, int heads) {
      return ggml_reshape_3d(context_, Multiply(linear, x), head_dim, heads, rows_);
    };
    return {project(weights.query, shape.num_heads), project(weights.key, shape.kv_heads),
            project(weights.value, shape.kv_heads)};
  }
  ggml_tensor* all = weights.fused_qkv.weight == nullptr
                         ? Multiply(std::array{weights.query, weights.key, weights.value}, x)
                         : Multiply(weights.fused_qkv, x);
  const std::size_t head_bytes = static_cast<std::size_t>(head_dim) * sizeof(float);
  const auto part = [&](int first_head, int heads) {
    return ggml_view_3d(context_, all, head_dim, heads, rows_, head_bytes, all->nb[1],
                        static_cast<std::size_t>(first_head) * head_bytes);
  };
  return {part(0, shape.num_heads), part(shape.num_heads, shape.kv_heads),
          part(shape.num_heads + shape.kv_heads, shape.kv_heads)};
}

ggml_tensor* GraphBuilder::Rotate(std::size_t layer, ggml_tensor* x, bool in_place) {
  const RopeSpec& rope = spec_.layers[layer].rope;
  const int mode =
      rope.layout == RopeLayout::kSplitHalf ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
  const auto rotate = in_place ? ggml_rope_ext_inplace : ggml_rope_ext;
  return rotate(context_, x, target_->positions, weights_.layers[layer].rope_factors, rope.dims,
                mode, rope.original_context, rope.base, rope.frequency_scale,
                rope.extrapolation_factor, rope.attention_factor, rope.beta_fast, rope.beta_slow);
}

ggml_tensor* GraphBuilder::Attention(std::size_t layer, ggml_tensor* x) {
  const LayerWeights& weights = weights_.layers[layer];
  const LayerHook& hook = hooks_[layer];
  const bool joined = JoinsProjections(layer);
  Projections qkv = Project(layer, joined, Norm(x, weights.attention_norm));
  if (spec_.qk_norm) {
    qkv.query = Norm(qkv.query, weights.query_norm);
    qkv.key = Norm(qkv.key, weights.key_norm);
  }
  // Keys of a joint projection stay where they are, so that K and V keep one stride.
  ggml_tensor* key = Rotate(layer, qkv.key, /*in_place=*/joined);
  ggml_tensor* stored = StoreNode(context_, key, qkv.value, hook);
  const bool ends_here = IsLast(layer) && target_->shape.outputs == 0;
  if (ends_here && !target_->shape.queries) return stored;
  ggml_tensor* query = Rotate(layer, qkv.query, /*in_place=*/false);
  if (target_->shape.queries) query = CaptureNode(context_, qkv.query, query, hook);
  if (ends_here) {
    ggml_build_forward_expand(target_->graph, query);
    return stored;
  }
  ggml_tensor* attended = AttentionNode(context_, query, stored, hook);
  if (target_->shape.merge) attended = MergeNode(context_, attended, query, hook);
  if (IsLast(layer)) attended = PickOutputs(attended);
  ggml_tensor* output = Multiply(weights.attention_output, attended);
  if (weights.attention_post_norm != nullptr) output = Norm(output, weights.attention_post_norm);
  return output;
}

ggml_tensor* GraphBuilder::FeedForward(std::size_t layer, ggml_tensor* x) {
  const LayerWeights& weights = weights_.layers[layer];
  const bool gelu = spec_.activation == Activation::kGelu;
  ggml_tensor* normed = Norm(x, weights.ffn_norm);
  const std::array both = {weights.gate, weights.up};
  const bool joined =
      weights.gate.weight == nullptr || linear_.CanJoin(both, static_cast<int>(normed->ne[1]));
  ggml_tensor* hidden = nullptr;
  if (joined) {  // [gate, up] in each row
    ggml_tensor* up =
        weights.gate.weight == nullptr ? Multiply(weights.up, normed) : Multiply(both, normed);
    hidden = gelu ? ggml_geglu(context_, up) : ggml_swiglu(context_, up);
  } else {
    ggml_tensor* up = Multiply(weights.up, normed);
    ggml_tensor* gate = Multiply(weights.gate, normed);
    hidden = gelu ? ggml_geglu_split(context_, gate, up) : ggml_swiglu_split(context_, gate, up);
  }
  ggml_tensor* output = Multiply(weights.down, hidden);
  if (weights.ffn_post_norm != nullptr) output = Norm(output, weights.ffn_post_norm);
  return output;
}

ggml_tensor* GraphBuilder::Logits(ggml_tensor* x) {
  ggml_tensor* logits = Multiply(weights_.output, Norm(x, weights_.output_norm));
  if (spec_.logit_scale != 1.0F) logits = ggml_scale(context_, logits, spec_.logit_scale);
  if (spec_.logit_softcap != 0.0F) {
    logits = ggml_scale(context_, logits, 1.0F / spec_.logit_softcap);
    logits = ggml_scale(context_, ggml_tanh(context_, logits), spec_.logit_softcap);
  }
  return logits;
}

}  // namespace

std::unique_ptr<DecoderGraph> BuildDecoderGraph(const GraphParts& parts, const GraphShape& shape) {
  SKV_CHECK(shape.rows > 0 && shape.outputs >= 0 && shape.outputs <= shape.rows);
  auto graph = std::make_unique<DecoderGraph>();
  graph->shape = shape;
  const std::size_t nodes = parts.spec.layers.size() * kNodesPerLayer + kOtherNodes;
  graph->context.reset(
      ggml_init({nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false), nullptr,
                 /*no_alloc=*/true}));
  SKV_CHECK(graph->context != nullptr, "no memory for the records of a graph");
  graph->graph = ggml_new_graph_custom(graph->context.get(), nodes, /*grads=*/false);
  GraphBuilder(parts, graph.get()).Build();
  return graph;
}

}  // namespace swiftkv
