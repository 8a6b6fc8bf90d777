#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CXX:-c++}" -std=c++17 -O2 -I. "-I$GLUINO_INCLUDE" "-L$GLUINO_LIB" "-Wl,-rpath,$GLUINO_LIB" bench.cc -o "$work/bench" -lgluino_c
"$work/bench" "$1"
