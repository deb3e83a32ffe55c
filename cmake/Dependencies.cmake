# SPDX-License-Identifier: Apache-2.0
# Finds the libraries that SwiftKV takes from the system. scripts/install_packages.sh installs them
# on Debian.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

if(SWIFTKV_BUILD_MODEL)
  find_package(spdlog REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  find_package(Boost 1.81 REQUIRED)  # Asio and Beast, headers alone
  find_package(dnnl REQUIRED)
  # By pkg-config: the package's own CMake files also ask for what pushing and serving need.
  pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
endif()
