#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
command -v R > /dev/null || { echo "R is not installed (r-base-core)"; exit 77; }
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export _R_CHECK_FORCE_SUGGESTS_=false R_LIBS_USER=$work/library
mkdir library
R CMD build --no-manual "$here/gluino"
R CMD check --no-manual gluino_*.tar.gz
cat gluino.Rcheck/tests/models.Rout
if grep -E '(WARNING|ERROR)S?$|Status: .*(WARNING|ERROR|NOTE)' gluino.Rcheck/00check.log; then exit 1; fi
R CMD INSTALL --library=library gluino_*.tar.gz > /dev/null 2>&1
Rscript "$here/example.R" "$GLUINO_TEST_MODELS/mlp-symbol.json"
