#!/bin/sh
# A compiler behind ccache; CMake writes it before every call. A precompiled header is made with its own text included, and a finished one that lies
# there from the build before would be read in its place: ccache would then know the new header by the old one, whatever has changed since.
output=
is_header=
previous=
for argument; do
  case $previous in
    -o) output=$argument ;;
    -x) [ "$argument" = c++-header ] && is_header=yes ;;
  esac
  previous=$argument
done
[ -n "$is_header" ] && rm -f "$output"
exec ccache "$@"
