#!/usr/bin/env bash
# Compiles the example and the test against the header and the library alone, and runs them; under valgrind where it is installed.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c99 -D_DEFAULT_SOURCE -Wall -Wextra -pedantic -Werror -O2 "-I$GLUINO_INCLUDE" "-L$GLUINO_LIB" "-Wl,-rpath,$GLUINO_LIB")
for program in example test_models; do
  "${CC:-cc}" "${flags[@]}" "$program.c" -o "$work/$program" -lgluino_c -lpthread -lm
done
"$work/test_models" "$GLUINO_TEST_MODELS"
"$work/example" "$GLUINO_TEST_MODELS/mlp-symbol.json"
[ "$(wc -l < example.c)" -le 40 ]
if "$work/example" /nowhere-symbol.json 2> "$work/error"; then exit 1; fi
grep -q nowhere "$work/error"
if command -v valgrind > /dev/null && [ -z "${GLUINO_NO_VALGRIND:-}" ]; then
  valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
    "$work/example" "$GLUINO_TEST_MODELS/mlp-symbol.json"
  echo "valgrind: no errors"
else
  echo "valgrind is not installed: not asked"
fi
