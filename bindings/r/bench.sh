#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
command -v R > /dev/null || { echo "R is not installed (r-base-core)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/library"
cp -r gluino "$work/gluino"
R CMD INSTALL --library="$work/library" "$work/gluino" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
R_LIBS=$work/library Rscript bench.R "$1"
