#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
command -v go > /dev/null || { echo "go is not installed (golang-go)"; exit 77; }
export CGO_CFLAGS="-I$GLUINO_INCLUDE" CGO_LDFLAGS="-L$GLUINO_LIB -Wl,-rpath,$GLUINO_LIB" GOFLAGS=-mod=mod GOTOOLCHAIN=local GLUINO_BENCH_MODEL=$1
go test -run '^$' -bench Predict -count 5 -cpu 1 . | awk '/^BenchmarkPredict/ {if (!best || $3 < best) best = $3} END {printf "{\"Go\": %.3f}\n", best / 1000}'
