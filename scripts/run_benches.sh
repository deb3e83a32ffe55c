#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a short form of every bench of a build directory, below 10 minutes on 2 cores:
# scripts/run_benches.sh BUILD_DIRECTORY
#
# Micro-benchmarks, then `swiftkv bench attention`, `swiftkv bench model`, and a comparison with
# llama.cpp where `make peers` has built it. Longer forms: the same programs without these flags, and
# scripts/compare_peers.py.
set -euo pipefail

build="${1:?usage: scripts/run_benches.sh BUILD_DIRECTORY}"
shopt -s nullglob
programs=("$build"/benches/*_bench)
if ((${#programs[@]} == 0)); then
  echo "[bench] Google Benchmark is not installed: the micro-benchmarks are left out" >&2
fi
for program in "${programs[@]}"; do
  echo "== $(basename "$program")"
  "$program" --benchmark_min_time=0.05
done

echo "== swiftkv bench attention"
"$build/swiftkv" bench attention
echo "== swiftkv bench model"
"$build/swiftkv" bench model --depths 0,2048 --formats f16,int8,k8v4 --rounds 1

echo "== scripts/compare_peers.py --short"
scripts="$(dirname "$0")"
if "$scripts/compare_peers.py" --swiftkv "$build/swiftkv" --have-peers; then
  "$scripts/compare_peers.py" --swiftkv "$build/swiftkv" --short
else
  echo "[bench] llama.cpp's own programs are not there; \`make peers\` builds them" >&2
fi
