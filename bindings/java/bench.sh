#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
command -v javac > /dev/null || { echo "javac is not installed (default-jdk-headless)"; exit 77; }
jna=${JNA_JAR:-/usr/share/java/jna.jar}
[ -e "$jna" ] || { echo "JNA is not installed (libjna-java)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
javac --release 17 -cp "$jna" -d "$work" src/org/gluino/*.java Bench.java
java -cp "$jna:$work" Bench "$1"
