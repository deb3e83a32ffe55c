// SPDX-License-Identifier: Apache-2.0
// Implements the lists of formats on the two tables.
#include "tools/bench_formats.h"

#include "base/status_macros.h"
#include "formats/codec_table.h"
#include "formats/page_format_table.h"

namespace swiftkv {
namespace {

Result<PageFormat> FormatCalled(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return FindPageFormat(name);
  PageFormat format;
  SKV_ASSIGN_OR_RETURN(format.key, FindCodec(name.substr(0, slash)));
  SKV_ASSIGN_OR_RETURN(format.value, FindCodec(name.substr(slash + 1)));
  return format;
}

}  // namespace

bool TakesAllFormats(const NameList& names) {
  return names.names == std::vector<std::string>{"all"};
}

Result<std::vector<BenchFormat>> ListBenchFormats(const NameList& names) {
  std::vector<BenchFormat> formats;
  if (TakesAllFormats(names)) {
    for (const NamedPageFormat& row : AllPageFormats()) {
      const bool oracle = row.format.key->info().id == FormatId::kF32;
      if (!oracle) formats.push_back({row.name, row.format});
    }
    return formats;
  }
  for (const std::string& name : names.names) {
    SKV_ASSIGN_OR_RETURN(const PageFormat format, FormatCalled(name));
    formats.push_back({name, format});
  }
  return formats;
}

}  // namespace swiftkv
