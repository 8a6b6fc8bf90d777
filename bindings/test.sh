#!/usr/bin/env bash
# Tests the packages of all languages against a build, or of those that are named: bindings/test.sh BUILD [LANGUAGE...]
# Each language's test.sh ends with 77 where something that it needs is not there, after a line that says what.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
export GLUINO_LIB=$build/src GLUINO_INCLUDE=$here/../include GLUINO_TEST_MODELS=$build/bindings/models
languages=("$@")
[ ${#languages[@]} -gt 0 ] || for folder in "$here"/*/test.sh; do languages+=("$(basename "$(dirname "$folder")")"); done
mkdir -p "$build/bindings"
PYTHONPATH=$build/python /usr/bin/python3 "$here/make_models.py" "$GLUINO_TEST_MODELS" || exit 1

failed=0
summary=()
for language in "${languages[@]}"; do
  log=$build/bindings/$language.log
  bash "$here/$language/test.sh" > "$log" 2>&1
  case $? in
    0) summary+=("$language: passed") ;;
    77) summary+=("$language: SKIPPED, $(tail -n 1 "$log")") ;;
    *)
      summary+=("$language: FAILED, see $log")
      failed=1
      tail -n 40 "$log"
      ;;
  esac
done
printf '%s\n' "${summary[@]}"
exit $failed
