#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
command -v node > /dev/null || { echo "node is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GLUINO_NODE_ADDON=$work/gluino.node
node -e "process.exit(require('fs').existsSync(require('path').join(process.execPath, '../../include/node/node_api.h')) ? 0 : 1)" ||
  npm install --silent --no-save --ignore-scripts --prefix "$work" node-api-headers > /dev/null 2>&1 ||
  { echo "Node's headers are missing, and npm could not install node-api-headers"; exit 77; }
NODE_PATH=$work/node_modules node build.js
node --test test/
node example.js "$GLUINO_TEST_MODELS/mlp-symbol.json"
