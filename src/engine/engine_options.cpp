// SPDX-License-Identifier: Apache-2.0
// Checks the options of the cache before anything is loaded.
#include "engine/engine_options.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "formats/codec_table.h"
#include "swiftkv/attention.h"

namespace swiftkv {
namespace {

void AppendName(const char* name, std::string* names) {
  if (!names->empty()) *names += ", ";
  *names += name;
}

Status CheckFormat(const std::string& name, Quality* grade) {
  if (name == "auto") {
    return Status::Unsupported(fmt::format(
        "a KV format must be chosen by name, because choosing it by measured loss is not built "
        "yet; formats: {}; got auto",
        FormatNames()));
  }
  SKV_ASSIGN_OR_RETURN(const PageCodec* codec, FindCodec(name));
  *grade = Worse(*grade, codec->info().quality);
  return Status::Ok();
}

}  // namespace

std::string FormatNames() {
  std::string names;
  for (const PageCodec* codec : AllCodecs()) AppendName(codec->info().name, &names);
  return names;
}

std::string AttentionBackendNames() {
  std::string names;
  for (const BackendRow& row : AllAttentionBackends()) AppendName(row.info.name, &names);
  return names;
}

const std::string& KeyFormatOf(const CacheOptions& options) {
  return options.key_format.empty() ? options.format : options.key_format;
}

const std::string& ValueFormatOf(const CacheOptions& options) {
  return options.value_format.empty() ? options.format : options.value_format;
}

Status ValidateCacheOptions(const CacheOptions& options) {
  Quality grade = Quality::kExact;
  SKV_RETURN_IF_ERROR(CheckFormat(KeyFormatOf(options), &grade));
  SKV_RETURN_IF_ERROR(CheckFormat(ValueFormatOf(options), &grade));
  if (options.quality && !Serves(grade, *options.quality)) {
    return Status::InvalidArgument(
        fmt::format("a cache with keys in {} and values in {} is graded {}, which quality {} does "
                    "not allow; allow {} or choose f16",
                    KeyFormatOf(options), ValueFormatOf(options), QualityName(grade),
                    QualityName(*options.quality), QualityName(grade)));
  }
  return Status::Ok();
}

}  // namespace swiftkv
