// SPDX-License-Identifier: Apache-2.0
// Looks the model up in the environment and in the set-up's cache.
#include "tools/model_path.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace swiftkv {
namespace {

constexpr const char* kFetchedModel = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

std::string Value(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string CacheDirectory(const Environment& environment) {
  std::string chosen = Value(environment, "SWIFTKV_CACHE_DIR");
  if (!chosen.empty()) {
    const std::string home = Value(environment, "HOME");
    if (chosen.starts_with("~/")) chosen.replace(0, 1, home);
    return chosen;
  }
  const std::string shared = Value(environment, "XDG_CACHE_HOME");
  if (!shared.empty()) return shared + "/swiftkv";
  const std::string home = Value(environment, "HOME");
  return home.empty() ? "" : home + "/.cache/swiftkv";
}

std::string TemporaryFolder(const Environment& environment) {
  const std::string chosen = Value(environment, "TMPDIR");
  return chosen.empty() ? "/tmp" : chosen;
}

Result<std::string> ResolveModelPath(const std::string& given, const Environment& environment) {
  if (!given.empty()) return given;
  const std::string chosen = Value(environment, "SWIFTKV_MODEL");
  if (!chosen.empty()) return chosen;
  const std::string path = CacheDirectory(environment) + "/" + kFetchedModel;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  return Status::NotFound(fmt::format(
      "there is no model: give one with -m FILE or $SWIFTKV_MODEL, or run `make run` once, which "
      "fetches {}",
      path));
}

Environment ProcessEnvironment() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

}  // namespace swiftkv
