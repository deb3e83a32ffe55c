// SPDX-License-Identifier: Apache-2.0
// Tests the URLs that `bench serve` takes.
#include "tools/bench_serve_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swiftkv {
namespace {

using testing::HasSubstr;

TEST(BenchServeAddressTest, UrlsComeApart) {
  struct Case {
    const char* url;
    const char* host;
    const char* port;
    const char* path;
    const char* authority;
  };
  for (const Case& each : {Case{"http://localhost:8080", "localhost", "8080", "", "localhost:8080"},
                           Case{"http://10.0.0.1/", "10.0.0.1", "80", "", "10.0.0.1:80"},
                           Case{"http://a.b:1/v1", "a.b", "1", "", "a.b:1"},
                           Case{"http://a.b:1/v1/", "a.b", "1", "", "a.b:1"},
                           Case{"http://a.b:65535/x/y/v1", "a.b", "65535", "/x/y", "a.b:65535"},
                           Case{"http://[::1]:8080/x", "::1", "8080", "/x", "[::1]:8080"},
                           Case{"http://[fe80::1]", "fe80::1", "80", "", "[fe80::1]:80"}}) {
    const Result<ServeAddress> address = ParseServeUrl(each.url);
    ASSERT_TRUE(address.ok()) << each.url;
    EXPECT_EQ(address->host, each.host);
    EXPECT_EQ(address->port, each.port);
    EXPECT_EQ(address->base_path, each.path);
    EXPECT_EQ(address->Authority(), each.authority);
  }
}

TEST(BenchServeAddressTest, AnythingElseIsRefusedWithTheUrl) {
  for (const char* url :
       {"", "http://", "localhost:8080", "ftp://a", "http://:80", "http://a:", "http://a:0",
        "http://a:65536", "http://a:8x", "http://[::1", "http://[::1]8080", "http://[]:80",
        "http://a b", "http://a/\r\nHost: b", "http://user@a", "http://a/?x=1", "http://a/#x"}) {
    const Result<ServeAddress> address = ParseServeUrl(url);
    ASSERT_FALSE(address.ok()) << url;
    EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(address.status().message(), HasSubstr("http://HOST[:PORT]"));
  }
}

TEST(BenchServeAddressTest, HttpsIsSentToAFront) {
  const Result<ServeAddress> address = ParseServeUrl("https://a.b");
  ASSERT_FALSE(address.ok());
  EXPECT_EQ(address.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(address.status().message(), HasSubstr("TLS"));
}

}  // namespace
}  // namespace swiftkv
