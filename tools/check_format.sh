#!/bin/sh
# Says which tracked C++ and CUDA sources are not laid out as .clang-format wants, and fails if there are any.
# With --fix it lays them out instead.
set -eu
cd "$(dirname "$0")/.."

clang_format=clang-format-14
command -v "$clang_format" >/dev/null || { echo "$0: $clang_format is missing" >&2; exit 1; }
list() { git ls-files -z -- '*.h' '*.cpp' '*.cu' '*.cuh'; }
if [ "${1:-}" = "--fix" ]; then
  list | xargs -0 -r "$clang_format" -i
else
  wrong=$(list | xargs -0 -r "$clang_format" --dry-run 2>&1 | sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: .*/\1/p' | sort -u)
  [ -n "$wrong" ] || exit 0
  echo "$0: not laid out as .clang-format wants; 'make format' does it:" >&2
  echo "$wrong" >&2
  exit 1
fi
