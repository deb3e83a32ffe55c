#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every check of the source, also after one has failed, and ends with a line that counts them.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

scripts/install_packages.sh checks || exit 1
scripts/build.sh kernels || exit 1

passed=0
failed=0
check() {
  local name="$1" start=$SECONDS
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "ok   $name ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAIL $name ($((SECONDS - start)) s)"
  fi
}

check 'layers and what they may see' scripts/check_layers.py
check 'sizes, heads and names' scripts/check_sizes.py
check 'documents name what exists' scripts/check_docs.py
check 'kernels keep their instructions to themselves' scripts/check_isa_symbols.py build
check 'format' scripts/check_format.sh
check 'clang-tidy' scripts/check_tidy.py build
echo "$passed passed, $failed failed"
((failed == 0))
