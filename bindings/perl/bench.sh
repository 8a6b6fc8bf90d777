#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")"
perl -MFFI::Platypus -e 1 2> /dev/null || { echo "FFI::Platypus is not installed (libffi-platypus-perl)"; exit 77; }
perl -Ilib bench.pl "$1"
