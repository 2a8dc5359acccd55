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
  list | xargs -0 -r "$clang_format" --dry-run -Werror
fi
