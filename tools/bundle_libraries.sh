#!/bin/sh
# Copies the shared libraries that the programs of a build folder use into its lib/, where they look first, so that the
# folder's programs also run on a machine that lacks them:   tools/bundle_libraries.sh build-cuda
# The C and C++ run time is left out, since it must fit the machine; so is the GPU's driver.
set -eu

build=${1:?"usage: $0 <build folder>"}
[ -d "$build" ] || { echo "$0: there is no folder $build" >&2; exit 1; }
mkdir -p "$build/lib"
find "$build" -maxdepth 2 -type f -perm -u+x \( -path "$build/zeroprefill" -o -name 'zp_*_test' -o -name '*_bench' \) |
  while IFS= read -r program; do ldd "$program"; done |
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -v -E '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libcuda)\.so' |
  while IFS= read -r library; do
    case $library in
      "$build"/lib/* | */"$build"/lib/*) ;;
      *) cp -uL "$library" "$build/lib/" ;;
    esac
  done
ls -l "$build/lib"
