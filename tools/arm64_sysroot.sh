#!/usr/bin/env bash
# Unpacks Debian's arm64 packages of the libraries into build/arm64-sysroot, for `make test-arm64`: tools/arm64_sysroot.sh PACKAGE...
# They are not installed, and apt's lists of them stand beside them: the machine's own packages and architectures stay as they are, and
# no root is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/arm64-sysroot
libraries=$root/usr/lib/aarch64-linux-gnu
if [ "$(cat "$root/packages" 2> /dev/null)" = "$*" ]; then
  echo "arm64 libraries: all are in build/arm64-sysroot"
  exit 0
fi
echo "arm64 libraries: unpacking into build/arm64-sysroot, nothing is installed: $*"
apt=$root/apt
rm -rf "$root"
mkdir -p "$apt"/{lists,archives}/partial
touch "$apt/status"  # nothing is there yet: what the packages depend on is fetched with them, C's library among it
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" -o Dir::State::Lists="$apt/lists"
  -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o Dir::Cache::Archives="$apt/archives" -o APT::Sandbox::User="$(id -un)"
  -o Debug::NoLocking=1)
{ apt-get "${options[@]}" update && apt-get "${options[@]}" install -y --download-only --no-install-recommends "$@"; } > build/arm64-sysroot.log 2>&1 \
  || { cat build/arm64-sysroot.log; exit 1; }
for package in "$apt"/archives/*.deb; do
  dpkg -x "$package" "$root"
done
# What update-alternatives would do: which BLAS and LAPACK is the one.
ln -sr "$libraries"/openblas-openmp/lib{blas,lapack,openblas}.so* "$libraries"
ln -sr "$libraries/openblas-openmp/pkgconfig/openblas.pc" "$libraries/pkgconfig"
for name in blas lapack; do ln -sr "$libraries/openblas-openmp/pkgconfig/$name-openblas.pc" "$libraries/pkgconfig/$name.pc"; done
# The linker follows links as they are: none may lead out of this folder.
find "$root" -lname '/*' -printf '%p %l\n' | while read -r link target; do ln -sfr "$root$target" "$link"; done
rm -rf "$apt"
echo "$*" > "$root/packages"
