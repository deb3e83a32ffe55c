// SPDX-License-Identifier: Apache-2.0
// Implements the custom nodes. ggml calls each on every thread of its team, with a barrier between
// nodes and none within one; that is why the phases of attention are nodes of their own.
#include "model/attention_nodes.h"

namespace swiftkv {
namespace {

// ggml passes userdata as a plain pointer.
const LayerHook& HookOf(void* userdata) { return *static_cast<const LayerHook*>(userdata); }

void* UserData(const LayerHook& hook) { return const_cast<LayerHook*>(&hook); }

const float* Floats(const ggml_tensor* tensor) { return static_cast<const float*>(tensor->data); }

std::size_t RowStride(const ggml_tensor* tensor) { return tensor->nb[2] / sizeof(float); }

void ComputeStore(ggml_tensor* node, int thread, int num_threads, void* userdata) {
  const LayerHook& hook = HookOf(userdata);
  ComputedKv kv;
  kv.keys = Floats(node->src[0]);
  kv.values = Floats(node->src[1]);
  kv.key_stride = RowStride(node->src[0]);
  kv.value_stride = RowStride(node->src[1]);
  hook.step->Store(hook.layer, kv, thread, num_threads);
}

void ComputeCapture(ggml_tensor* node, int thread, int num_threads, void* userdata) {
  const LayerHook& hook = HookOf(userdata);
  ComputedQueries queries;
  queries.turned = Floats(node->src[0]);
  queries.plain = Floats(node->src[1]);
  queries.turned_stride = RowStride(node->src[0]);
  queries.plain_stride = RowStride(node->src[1]);
  hook.step->Capture(hook.layer, queries, thread, num_threads);
}

void ComputeAttention(ggml_tensor* node, int thread, int num_threads, void* userdata) {
  const LayerHook& hook = HookOf(userdata);
  hook.step->Attend(hook.layer, Floats(node->src[0]), static_cast<float*>(node->data),
                    {thread, num_threads});
}

void ComputeMerge(ggml_tensor* node, int thread, int num_threads, void* userdata) {
  const LayerHook& hook = HookOf(userdata);
  hook.step->Merge(hook.layer, Floats(node->src[1]), static_cast<float*>(node->data),
                   {thread, num_threads});
}

}  // namespace

ggml_tensor* StoreNode(ggml_context* context, ggml_tensor* keys, ggml_tensor* values,
                       const LayerHook& hook) {
  ggml_tensor* sources[] = {values};
  return ggml_custom_inplace(context, keys, sources, 1, ComputeStore, GGML_N_TASKS_MAX,
                             UserData(hook));
}

ggml_tensor* CaptureNode(ggml_context* context, ggml_tensor* plain, ggml_tensor* turned,
                         const LayerHook& hook) {
  ggml_tensor* sources[] = {plain};
  return ggml_custom_inplace(context, turned, sources, 1, ComputeCapture, GGML_N_TASKS_MAX,
                             UserData(hook));
}

ggml_tensor* AttentionNode(ggml_context* context, ggml_tensor* q, ggml_tensor* stored,
                           const LayerHook& hook) {
  ggml_tensor* sources[] = {q, stored};
  return ggml_custom_4d(context, GGML_TYPE_F32, q->ne[0] * q->ne[1], q->ne[2], 1, 1, sources, 2,
                        ComputeAttention, GGML_N_TASKS_MAX, UserData(hook));
}

ggml_tensor* MergeNode(ggml_context* context, ggml_tensor* attended, ggml_tensor* q,
                       const LayerHook& hook) {
  ggml_tensor* sources[] = {q};
  return ggml_custom_inplace(context, attended, sources, 1, ComputeMerge, GGML_N_TASKS_MAX,
                             UserData(hook));
}

}  // namespace swiftkv
