// SPDX-License-Identifier: Apache-2.0
// Describes a decoder by the few numbers that its memory depends on, and expands them.
//
// What a published config.json says, under one name each; presets are a table of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_plan.h"
#include "tools/plan_weights.h"

namespace swiftkv {

struct PlanShape {
  const char* name = "";
  int layers = 0;
  int hidden = 0;  // channels of the residual stream
  int query_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;  // channels of a dense feed-forward
  int vocabulary = 0;
  int context = 0;           // tokens, the model's maximum
  bool tied_output = false;  // no output matrix of its own
  int window = 0;            // tokens; 0: every layer sees everything
  int full_every = 0;        // of so many layers the last has no window; 0: all have it

  struct Experts {
    int count = 0;  // routed; 0: every layer is dense
    int ffn = 0;
    int shared = 0;        // always computed
    int dense_layers = 0;  // the first ones have no experts
  } experts = {};

  // Multi-head latent attention (DeepSeek-V2, 2024): a token stores one row for all heads.
  struct Latent {
    int rank = 0;        // 0: none
    int rope_dim = 0;    // stored behind the rank
    int query_rank = 0;  // 0: queries are not compressed
    int plain_dim = 0;   // channels of a head's query and key without rope
    int value_dim = 0;   // of a head's value
  } latent = {};

  const char* weights_type = "bf16";  // as published
  double weights_bits = 16;           // of a weight, on average
};

// One layer as it is stored, and as it would be if every query head had a K and V of its own.
struct ShapedLayer {
  PlanLayer stored;
  PlanLayer unshared;
  int query_heads = 0;

  friend bool operator==(const ShapedLayer&, const ShapedLayer&) = default;
};

// A model to plan for, wherever its numbers come from.
struct PlanModel {
  std::string name;          // preset, or path of the file
  std::string kind;          // "preset", "config.json" or "GGUF"
  std::string architecture;  // for people; may be empty
  int context = 0;
  std::vector<ShapedLayer> layers;
  std::uint64_t parameters = 0;
  std::uint64_t weights_bytes = 0;
  std::string weights_type;         // "q4_k_m"; of a GGUF the type of most of its bytes
  bool weights_are_counted = true;  // from tensors; else parameters times bits
  std::string note;                 // for people: what the plan leaves out; may be empty
  int hidden = 0;
  int ffn = 0;  // the widest
  int vocabulary = 0;
};

// Returns the layers; `windows` holds one for each layer where `shape` cannot say it, else is
// empty.
std::vector<ShapedLayer> ExpandLayers(const PlanShape& shape, std::span<const int> windows = {});

// Returns the elements of all matrices; norms and biases, below a thousandth, are left out.
std::uint64_t CountParameters(const PlanShape& shape);
// Returns how many of them are routed experts'.
std::uint64_t CountExpertParameters(const PlanShape& shape);

// Returns the model of a shape with weights of one type. Name and kind are the caller's.
PlanModel ModelOfShape(const PlanShape& shape, std::span<const int> windows,
                       const WeightType& weights);

// Returns what graph and scratch of a step take, by a formula: see the source.
std::uint64_t EstimateActivationBytes(const PlanModel& model);

}  // namespace swiftkv
