// SPDX-License-Identifier: Apache-2.0
// Splits a URL by hand: only one scheme and no user, query or fragment are accepted.
#include "tools/bench_serve_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tools/printable_text.h"

namespace swiftkv {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::string_view kVersion = "/v1";

Status Refused(const std::string& url) {
  return Status::InvalidArgument(fmt::format(
      "the server's URL is http://HOST[:PORT][/PATH], not: {}", PrintableExcerpt(url, 80)));
}

bool IsPort(std::string_view text) {
  int port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && port >= 1 &&
         port <= 65535;
}

}  // namespace

std::string ServeAddress::Authority() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format(fmt::runtime(is_v6 ? "[{}]:{}" : "{}:{}"), host, port);
}

Result<ServeAddress> ParseServeUrl(const std::string& url) {
  if (url.starts_with("https://")) {
    return Status::Unsupported(
        fmt::format("https is not spoken; load the http:// port behind the TLS front of {}",
                    PrintableExcerpt(url, 80)));
  }
  const bool is_clean = std::all_of(url.begin(), url.end(), [](char c) {
    return c > ' ' && c < '\x7f' && c != '?' && c != '#' && c != '@';
  });
  if (!is_clean || !url.starts_with(kScheme)) return Refused(url);
  const std::string_view rest = std::string_view(url).substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  ServeAddress address;
  address.port = "80";
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return Refused(url);
    address.host = authority.substr(1, end - 1);
    authority.remove_prefix(end + 1);
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    address.host = authority.substr(0, colon);
    authority.remove_prefix(colon);
  }
  if (!authority.empty()) {
    if (!authority.starts_with(':') || !IsPort(authority.substr(1))) return Refused(url);
    address.port = authority.substr(1);
  }
  if (address.host.empty()) return Refused(url);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with(kVersion)) path.remove_suffix(kVersion.size());
  address.base_path = path;
  return address;
}

}  // namespace swiftkv
