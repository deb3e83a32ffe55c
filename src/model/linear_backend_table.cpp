// SPDX-License-Identifier: Apache-2.0
// Lists every linear backend that this build has; flags, help, docs, tests and the choice by
// measuring walk this table.
#include "model/byte_linear.h"
#include "model/linear_backend.h"
#include "model/onednn_linear.h"

namespace swiftkv {
namespace {

constexpr LinearBackendRow kBackends[] = {
    {"ggml", "the tensor library's own products, in its layouts for this CPU", nullptr},
    {"bytes", "quantised weights times rows in 8 bits, by kernels for few and for many rows",
     MakeByteLinear},
    {"onednn", "f32 or bf16 products on panels that are unpacked into cache", MakeOnednnLinear},
};

}  // namespace

std::span<const LinearBackendRow> AllLinearBackends() { return kBackends; }

}  // namespace swiftkv
