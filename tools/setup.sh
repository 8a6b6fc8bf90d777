#!/usr/bin/env bash
# Installs the Debian packages that are missing. With the argument "bench": also what the benchmark compares with; with
# "lint": also the linters.
set -euo pipefail
mkdir -p "$(dirname "$0")/../build"

packages=(g++ clang-19 llvm-19-dev cmake ninja-build ccache pkg-config clang-format python3
  libdnnl-dev libopenblas-openmp-dev liblapacke-dev nlohmann-json3-dev libfmt-dev libcli11-dev
  libxxhash-dev zlib1g-dev libzip-dev libjpeg62-turbo-dev libpng-dev libgtest-dev libbenchmark-dev
  python3-dev pybind11-dev python3-numpy python3-pil python3-pytest python3-setuptools python3-wheel python3-pip)
if [ "${1:-}" = bench ]; then packages+=(libtorch-dev python3-torch); fi
if [ "${1:-}" = lint ]; then packages+=(clang-tidy); fi

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=""
if [ "$(id -u)" -ne 0 ]; then sudo=sudo; fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
