// SPDX-License-Identifier: Apache-2.0
// Builds the ggml graph of one decoder pass for a number of rows and of wanted logits.
//
// One builder serves every family: DecoderSpec says what it differs in. K/V go into the paged cache
// and attention comes out of it through custom nodes, which ggml calls on all its threads; lengths
// and pages travel through ForwardStep, so that a graph serves every step of the same size.
// Owner: the model, whose thread builds and computes.
#pragma once

#include <memory>
#include <vector>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "model/decoder_spec.h"
#include "model/decoder_weights.h"
#include "model/forward_step.h"
#include "model/linear_layers.h"

namespace swiftkv {

struct GraphShape {
  int rows = 0;
  int outputs = 0;     // rows whose logits are wanted, [0, rows]
  bool merge = false;  // attention has a second phase
  bool queries =
      false;  // sinks receive the queries of all layers, the last one's without outputs too

  friend bool operator==(const GraphShape&, const GraphShape&) = default;
};

// What the custom nodes of one layer find in their userdata.
struct LayerHook {
  const ForwardStep* step = nullptr;
  int layer = 0;
};

struct DecoderGraph {
  GraphShape shape;
  ggml_context_ptr context;  // tensors' records, no data
  ggml_cgraph* graph = nullptr;
  ggml_tensor* tokens = nullptr;       // [rows] i32
  ggml_tensor* positions = nullptr;    // [rows] i32
  ggml_tensor* output_rows = nullptr;  // [outputs] i32, null where outputs is 0 or rows
  ggml_tensor* logits = nullptr;       // [outputs, vocab_size] f32, null without outputs
  ggml_cplan plan = {};                // filled by the caller
  LinearNodes linear_nodes;            // userdata of products that are not ggml's
};

// What graphs are made of; outlives them.
struct GraphParts {
  const DecoderSpec& spec;
  const DecoderWeights& weights;
  const std::vector<LayerHook>& hooks;  // one per layer
  LinearLayers& linear;
};

// Returns the graph with its tensors not yet allocated. Without outputs it ends where the last
// layer's K/V are stored.
std::unique_ptr<DecoderGraph> BuildDecoderGraph(const GraphParts& parts, const GraphShape& shape);

}  // namespace swiftkv
