#!/usr/bin/env bash
# Installs the Debian packages that are missing. With the argument "bench": also what the benchmark compares with; with
# "lint": also the linters; with "onnx": also what the ONNX tests export from; with "page": also the browser in which the page is
# tested; with "bindings": also the runtimes of other languages, as many as can be had.
set -euo pipefail
mkdir -p "$(dirname "$0")/../build"

packages=(g++ clang-19 llvm-19-dev cmake ninja-build ccache pkg-config clang-format python3
  libdnnl-dev libopenblas-openmp-dev liblapacke-dev nlohmann-json3-dev libfmt-dev libcli11-dev
  libxxhash-dev zlib1g-dev libzip-dev libjpeg62-turbo-dev libpng-dev libgtest-dev libbenchmark-dev libonnx-dev libprotobuf-dev libssl-dev
  libopenmpi-dev openmpi-bin
  python3-dev pybind11-dev python3-numpy python3-pil python3-pytest python3-setuptools python3-wheel python3-pip python3-onnx
  libffi-platypus-perl)
if [ "${1:-}" = bench ]; then packages+=(libtorch-dev python3-torch wrk); fi
if [ "${1:-}" = lint ]; then packages+=(clang-tidy); fi
if [ "${1:-}" = onnx ]; then packages+=(python3-torch python3-torchvision); fi
if [ "${1:-}" = page ]; then packages+=(chromium); fi

sudo=""
if [ "$(id -u)" -ne 0 ]; then sudo=sudo; fi
export DEBIAN_FRONTEND=noninteractive
is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

# Each alone: the tests of a language whose runtime cannot be had are skipped.
if [ "${1:-}" = bindings ]; then
  updated=""
  for p in valgrind nodejs libffi-platypus-perl default-jdk-headless libjna-java scala r-base-core golang-go; do
    is_installed "$p" && continue
    [ -n "$updated" ] || { $sudo apt-get update -qq; updated=yes; }
    echo "installing: $p"
    $sudo apt-get install -y -qq --no-install-recommends "$p" > /dev/null || echo "$p could not be installed"
  done
  exit 0
fi

missing=()
for p in "${packages[@]}"; do
  is_installed "$p" || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}"
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
