// SPDX-License-Identifier: Apache-2.0
// Implements the choice of buffer types over ggml's device interface.
#include "model/weight_buffers.h"

#include "ggml-cpp.h"

namespace swiftkv {

std::vector<ggml_backend_buffer_type_t> ExtraBufferTypes() {
  std::vector<ggml_backend_buffer_type_t> types;
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return types;
  auto get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
      ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  if (get == nullptr) return types;
  for (ggml_backend_buffer_type_t* type = get(device); type != nullptr && *type != nullptr;
       ++type) {
    types.push_back(*type);
  }
  return types;
}

bool CanMultiplyIn(ggml_backend_buffer_type_t buffer_type, const GgufTensor& tensor) {
  constexpr int kBatchRows = 512;  // a usual batch; buffer types answer for any
  ggml_context_ptr context(ggml_init({4 * ggml_tensor_overhead(), nullptr, /*no_alloc=*/true}));
  ggml_tensor* weight = ggml_new_tensor_2d(context.get(), static_cast<ggml_type>(tensor.type),
                                           tensor.shape[0], tensor.shape[1]);
  ggml_tensor* input =
      ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, tensor.shape[0], kBatchRows);
  ggml_tensor* product = ggml_mul_mat(context.get(), weight, input);
  // Buffer types look at the buffer of the weight, so that an empty one stands in.
  ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(buffer_type, 0));
  if (buffer == nullptr) return false;
  weight->buffer = buffer.get();
  return ggml_backend_dev_supports_op(ggml_backend_buft_get_device(buffer_type), product);
}

}  // namespace swiftkv
