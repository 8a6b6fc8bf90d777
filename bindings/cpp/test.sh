#!/usr/bin/env bash
# Compiles the example and the test against the two headers and the library alone, and runs them.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++17 -Wall -Wextra -pedantic -Wno-missing-field-initializers -Werror -O1 -I. "-I$GLUINO_INCLUDE" "-L$GLUINO_LIB" "-Wl,-rpath,$GLUINO_LIB")
for program in example test_models; do
  "${CXX:-c++}" "${flags[@]}" "$program.cc" -o "$work/$program" -lgluino_c -lpthread
done
"$work/test_models" "$GLUINO_TEST_MODELS"
"$work/example" "$GLUINO_TEST_MODELS/mlp-symbol.json"
