#!/usr/bin/env bash
# Installs the Debian packages that are missing, and says which: tools/setup.sh SET...
#   build     the library and the command gluino: what `make demo` needs
#   test      all that is built, machine code for loops among it, and all tests (the default)
#   lint      the linters          page      the browser in which pages are tested
#   package   what packages are made and tried with
#   clang     all tests with Clang
#   arm64     the cross compiler and QEMU; the libraries are unpacked beside the build (tools/arm64_sysroot.sh)
#   onnx      what the tests of ONNX models export from
#   bench     what is compared with          bindings  runtimes of other languages, as many as can be had
# Without root, or sudo that asks for no password, nothing is installed, and one line says what is missing.
set -euo pipefail
mkdir -p "$(dirname "$0")/../build"

libraries=(libdnnl-dev libopenblas-openmp-dev liblapacke-dev nlohmann-json3-dev libfmt-dev libcli11-dev
  libxxhash-dev zlib1g-dev libzip-dev libjpeg62-turbo-dev libpng-dev)
tools=(cmake ninja-build ccache pkg-config)
build=(g++ "${tools[@]}" "${libraries[@]}")
tests=(clang-19 llvm-19-dev clang-format python3 libgtest-dev libbenchmark-dev libonnx-dev libprotobuf-dev libssl-dev
  libopenmpi-dev openmpi-bin
  python3-dev pybind11-dev python3-numpy python3-pil python3-pytest python3-setuptools python3-wheel python3-pip python3-onnx
  libffi-platypus-perl)

packages=() optional=()
for set in "${@:-test}"; do
  case $set in
    build) packages+=("${build[@]}") ;;
    test) packages+=("${build[@]}" "${tests[@]}") ;;
    lint) packages+=(clang-format clang-tidy pyflakes3) ;;
    clang) packages+=("${build[@]}" "${tests[@]}" libclang-rt-19-dev) ;;
    arm64)
      packages+=("${tools[@]}" g++-aarch64-linux-gnu qemu-user-static)
      "$(dirname "$0")/arm64_sysroot.sh" "${libraries[@]}" libgtest-dev
      ;;
    page) packages+=(chromium) ;;
    package) packages+=(dpkg-dev file patchelf python3-pip python3-setuptools python3-wheel debootstrap) ;;
    bench) packages+=(libtorch-dev python3-torch wrk) ;;
    onnx) packages+=(python3-torch python3-torchvision) ;;
    bindings) optional+=(valgrind nodejs libffi-platypus-perl default-jdk-headless libjna-java scala r-base-core golang-go) ;;
    *) echo "tools/setup.sh: no set of packages is called $set" >&2; exit 2 ;;
  esac
done

installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package}:${Architecture}\n' | sed -n 's/^installed //p' | tr '\n' ' ')"
here=$(dpkg --print-architecture)
missing() { for p in "$@"; do [[ $installed =~ \ ${p//+/\\+}(:$here|:all)?\  ]] || echo "$p"; done; }
mapfile -t needed < <(missing "${packages[@]}")
mapfile -t wanted < <(missing "${optional[@]}")
if [ $((${#needed[@]} + ${#wanted[@]})) -eq 0 ]; then
  echo "packages (${*:-test}): all are installed"
  exit 0
fi

sudo=""
if [ "$(id -u)" -ne 0 ]; then
  sudo="sudo -n"
  if ! $sudo true 2> /dev/null; then
    echo "packages (${*:-test}): not installed, for want of root: ${needed[*]} ${wanted[*]}"
    exit 0
  fi
fi
export DEBIAN_FRONTEND=noninteractive
install() { $sudo apt-get install -y -qq --no-install-recommends "$@" > build/setup.log 2>&1; }
cd "$(dirname "$0")/.."
$sudo apt-get update -qq
if [ ${#needed[@]} -gt 0 ]; then
  echo "packages (${*:-test}): installing ${needed[*]}"
  install "${needed[@]}" || { cat build/setup.log; exit 1; }
fi
# Each alone: the tests of a language whose runtime cannot be had are skipped.
for p in "${wanted[@]}"; do
  echo "packages (${*:-test}): installing $p"
  install "$p" || echo "$p could not be installed"
done
