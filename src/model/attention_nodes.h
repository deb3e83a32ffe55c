// SPDX-License-Identifier: Apache-2.0
// Makes graph nodes that store K/V into the paged cache, attend over it and hand queries on.
#pragma once

#include "ggml.h"
#include "model/decoder_graph.h"

namespace swiftkv {

// Stores K [head_dim, kv_heads, rows] and V of the same shape, rows perhaps strided. Returns K
// unchanged; whatever reads the pages must depend on what is returned.
ggml_tensor* StoreNode(ggml_context* context, ggml_tensor* keys, ggml_tensor* values,
                       const LayerHook& hook);

// Hands queries [head_dim, heads, rows], perhaps strided, before RoPE (`plain`) and after it, to
// the sinks of their slices. Returns `turned` unchanged, for whatever reads it next to depend on.
ggml_tensor* CaptureNode(ggml_context* context, ggml_tensor* plain, ggml_tensor* turned,
                         const LayerHook& hook);

// Attends with q [head_dim, heads, rows], contiguous; returns [heads * head_dim, rows]. `stored` is
// StoreNode's result.
ggml_tensor* AttentionNode(ggml_context* context, ggml_tensor* q, ggml_tensor* stored,
                           const LayerHook& hook);

// Merges partial results in place: `attended` is AttentionNode's result for the same q.
ggml_tensor* MergeNode(ggml_context* context, ggml_tensor* attended, ggml_tensor* q,
                       const LayerHook& hook);

}  // namespace swiftkv
