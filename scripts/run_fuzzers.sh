#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets with Clang and runs each for FUZZ_SECONDS; a finding is kept and ends the
# run.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${FUZZ_SECONDS:-60}"
scripts/build.sh fuzz
shopt -s nullglob
for program in build-fuzz/fuzz/*_fuzz; do
  subject=$(basename "$program" _fuzz)
  corpus="tests/fuzz/corpus/$subject"
  found="build-fuzz/found/$subject"
  mkdir -p "$found"
  corpora=("$found")
  if [[ -d "$corpus" ]]; then corpora+=("$corpus"); fi
  echo "== $subject for $seconds s"
  # New inputs go to the first folder; the seeds in the second are only read.
  "$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$found/failure-" "${corpora[@]}" || {
    echo "fuzzing $subject failed; the input is $found/failure-*: fix it and add it to $corpus" >&2
    exit 1
  }
done
