#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
command -v node > /dev/null || { echo "node is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GLUINO_NODE_ADDON=$work/gluino.node
node build.js || { echo "the addon does not compile: Node's headers are missing"; exit 77; }
node bench.js "$@"
