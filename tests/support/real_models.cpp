// SPDX-License-Identifier: Apache-2.0
// Looks for model files where the test runner says they lie.
#include "support/real_models.h"

#include <cstdlib>
#include <filesystem>

namespace swiftkv {

Result<std::string> RealModelFile(RealModel model) {
  const bool smollm2 = model == RealModel::kSmolLm2;
  const char* file = smollm2 ? "SmolLM2-135M-Instruct.Q4_1.gguf" : "gemma-3-270m-q4_k_m.gguf";
  const std::string hint = std::string("run scripts/fetch_models.py ") +
                           (smollm2 ? "smollm2" : "gemma3") +
                           " and set SWIFTKV_TEST_MODELS to its folder; missing: ";
  const char* folder = std::getenv("SWIFTKV_TEST_MODELS");
  if (folder == nullptr) return Status::NotFound(hint + file);
  const std::filesystem::path path = std::filesystem::path(folder) / file;
  if (!std::filesystem::is_regular_file(path)) return Status::NotFound(hint + path.string());
  return path.string();
}

}  // namespace swiftkv
