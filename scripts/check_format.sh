#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that C++ files are as clang-format 14 leaves them; `check_format.sh --fix` rewrites them.
set -euo pipefail
cd "$(dirname "$0")/.."

formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z "$formatter" ]]; then
  echo "clang-format is missing; scripts/install_packages.sh checks installs it" >&2
  exit 1
fi
if ! "$formatter" --version | grep -q 'version 14\.'; then
  echo "clang-format 14 is what the tree is formatted with; this is: $("$formatter" --version)" >&2
  exit 1
fi
if [[ "${1:-}" == --fix ]]; then mode=(-i); else mode=(--dry-run --Werror); fi
find src include tests benches cmake -type f \( -name '*.h' -o -name '*.cpp' \) -print0 2>/dev/null |
  xargs -0 --no-run-if-empty "$formatter" "${mode[@]}"
