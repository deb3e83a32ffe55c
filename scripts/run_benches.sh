#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every micro-benchmark program of a build directory, one after the other:
# scripts/run_benches.sh BUILD_DIRECTORY
set -euo pipefail

directory="${1:?usage: scripts/run_benches.sh BUILD_DIRECTORY}/benches"
shopt -s nullglob
programs=("$directory"/*_bench)
if ((${#programs[@]} == 0)); then
  echo "benches/ holds no *_bench.cpp yet, or Google Benchmark is not installed" >&2
  exit 1
fi
for program in "${programs[@]}"; do
  echo "== $(basename "$program")"
  "$program"
done
