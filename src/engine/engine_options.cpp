// SPDX-License-Identifier: Apache-2.0
// Checks the options of the cache before anything is loaded.
#include "engine/engine_options.h"

#include <fmt/format.h>

#include "base/status_macros.h"
#include "engine/forgetting_rule.h"
#include "formats/codec_table.h"
#include "formats/page_format_table.h"
#include "policy/eviction_policy.h"
#include "swiftkv/attention.h"

namespace swiftkv {
namespace {

void AppendName(const char* name, std::string* names) {
  if (!names->empty()) *names += ", ";
  *names += name;
}

Status Unknown(const std::string& accepts, const std::string& text) {
  return Status::InvalidArgument(fmt::format("{}; got \"{}\"", accepts, text));
}

Result<const PageCodec*> FindPlaneFormat(const std::string& name) {
  const Result<const PageCodec*> codec = FindCodec(name);
  if (codec.ok()) return codec;
  return Unknown("the format of one plane is one of " + PlaneFormatChoices(), name);
}

Status CheckGrade(const PageFormat& format, Quality ceiling) {
  const Quality grade = PageFormatQuality(format);
  if (Serves(grade, ceiling)) return Status::Ok();
  return Status::InvalidArgument(fmt::format(
      "a cache in {} is graded {}, which --quality {} does not allow; allow {} or choose f16",
      PageFormatName(format), QualityName(grade), QualityName(ceiling), QualityName(grade)));
}

}  // namespace

std::string NamedPageFormats() {
  std::string names;
  for (const NamedPageFormat& row : AllPageFormats()) AppendName(row.name, &names);
  return names;
}

std::string PageFormatChoices() { return NamedPageFormats() + ", " + kAutomaticFormat; }

std::string PlaneFormatChoices() {
  std::string names;
  for (const PageCodec* codec : AllCodecs()) AppendName(codec->info().name, &names);
  return names;
}

std::string AttentionBackendNames() {
  std::string names;
  for (const BackendRow& row : AllAttentionBackends()) AppendName(row.info.name, &names);
  return names;
}

std::string PolicyChoices() {
  std::string names;
  for (const EvictionPolicy* policy : AllPolicies()) AppendName(policy->info().name, &names);
  return names + ", " + kNoPolicy;
}

std::optional<Forgetting> ForgettingOf(const Forgetting& options) {
  const bool says_nothing =
      options.policy.empty() && !options.ratio && options.budget.empty() && options.kept_as.empty();
  if (says_nothing || options.policy == kNoPolicy) return std::nullopt;
  return options;
}

Status ValidateForgetting(const Forgetting& options, const CacheOptions& cache) {
  const std::optional<Forgetting> forgetting = ForgettingOf(options);
  if (!forgetting) return Status::Ok();
  SKV_RETURN_IF_ERROR(CheckForgetting(*forgetting));
  const Quality ceiling = cache.quality.value_or(Quality::kAny);
  if (ceiling == Quality::kAny) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("a cache that forgets is graded any, which --quality does not allow; allow any "
                  "or leave out --policy, not: --quality {}",
                  QualityName(ceiling)));
}

Result<PageFormat> ParsePageFormat(const std::string& text) {
  const Result<PageFormat> named = FindPageFormat(text);
  if (named.ok()) return named;
  const std::size_t slash = text.find('/');
  PageFormat format;
  if (slash != std::string::npos) {
    SKV_ASSIGN_OR_RETURN(format.key, FindPlaneFormat(text.substr(0, slash)));
    SKV_ASSIGN_OR_RETURN(format.value, FindPlaneFormat(text.substr(slash + 1)));
    return format;
  }
  return Unknown("a page format is KEYS/VALUES or one of " + NamedPageFormats(), text);
}

bool WantsAutomaticFormat(const CacheOptions& options) {
  return options.format == kAutomaticFormat && options.key_format.empty() &&
         options.value_format.empty();
}

Result<PageFormat> PageFormatOf(const CacheOptions& options) {
  if (options.format == kAutomaticFormat) {
    return Status::InvalidArgument(
        "calibration chooses the formats of both planes; give --kv-k and --kv-v without --kv auto");
  }
  const Result<PageFormat> named = FindPageFormat(options.format);
  if (!named.ok()) return Unknown("--kv accepts " + PageFormatChoices(), options.format);
  PageFormat format = *named;
  if (!options.key_format.empty()) {
    SKV_ASSIGN_OR_RETURN(format.key, FindPlaneFormat(options.key_format));
  }
  if (!options.value_format.empty()) {
    SKV_ASSIGN_OR_RETURN(format.value, FindPlaneFormat(options.value_format));
  }
  return format;
}

Status ValidateCacheOptions(const CacheOptions& options) {
  if (WantsAutomaticFormat(options)) return Status::Ok();
  SKV_ASSIGN_OR_RETURN(const PageFormat format, PageFormatOf(options));
  return options.quality ? CheckGrade(format, *options.quality) : Status::Ok();
}

}  // namespace swiftkv
