#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
command -v go > /dev/null || { echo "go is not installed (golang-go)"; exit 77; }
export CGO_CFLAGS="-I$GLUINO_INCLUDE" CGO_LDFLAGS="-L$GLUINO_LIB -Wl,-rpath,$GLUINO_LIB" GOFLAGS=-mod=mod GOTOOLCHAIN=local
test -z "$(gofmt -l .)"
go vet ./...
go test -count=1 ./...
go run ./example "$GLUINO_TEST_MODELS/mlp-symbol.json"
