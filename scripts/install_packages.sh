#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a job needs and does nothing when all are there:
# install_packages.sh [tests|checks]
#
# Without an argument those of the build; `tests` adds the prose that quality is measured on,
# `checks` the code checkers.
set -euo pipefail

readonly BUILD_PACKAGES=(
  ca-certificates cmake g++ libbenchmark-dev libboost1.81-dev libcli11-dev libdnnl-dev libfmt-dev libgmock-dev libgtest-dev
  libspdlog-dev libssl-dev libxxhash-dev libzstd-dev make ninja-build nlohmann-json3-dev pkg-config
  prometheus-cpp-dev python3 python3-pip
)
readonly TEST_PACKAGES=(debian-policy)
readonly CHECK_PACKAGES=(clang clang-format clang-tidy libclang-rt-dev)

fail() {
  printf '[setup] installing packages failed: %s\n  what to do: %s\n' "$1" "$2" >&2
  exit 1
}

wanted=("${BUILD_PACKAGES[@]}")
case "${1:-}" in
  '') ;;
  tests) wanted+=("${TEST_PACKAGES[@]}") ;;
  checks) wanted+=("${CHECK_PACKAGES[@]}") ;;
  *) fail "there is no group of packages named: $1" "name tests, checks or nothing" ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "[setup] not a Debian system; the equivalents of these must be there: ${wanted[*]}" >&2
  exit 0
fi

installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
  sed -n 's/^installed //p' || true)
missing=()
for package in "${wanted[@]}"; do
  if ! grep -qxF -- "$package" <<<"$installed"; then missing+=("$package"); fi
done
if ((${#missing[@]} == 0)); then exit 0; fi

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    fail "these are missing and neither root nor sudo is at hand: ${missing[*]}" \
      "as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

echo "[setup] installing ${#missing[@]} packages: ${missing[*]}" >&2
apt() {
  # Small images drop all of /usr/share/doc; the prose for the tests lies there.
  local prose_option='--path-include=/usr/share/doc/debian-policy/*'
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Use-Pty=0 -o "DPkg::Options::=$prose_option" "$@" >/dev/null
}
apt update || echo "[setup] the package lists could not be refreshed; trying with those at hand" >&2
apt install --yes --no-install-recommends "${missing[@]}" ||
  fail "apt-get ended with an error (its messages are above) on: ${missing[*]}" \
    "check the network and the apt sources, then run the same command again"
