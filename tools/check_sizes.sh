#!/bin/sh
# Fails when the tracked files together, or one C++ or CUDA source, are larger than the project allows.
set -eu
cd "$(dirname "$0")/.."

total_bytes_max=$((24 * 1024 * 1024))
source_lines_max=600

total_bytes=$(git ls-files -z | xargs -0 -r stat -c %s -- | awk '{ sum += $1 } END { print sum + 0 }')
echo "tracked files: $total_bytes bytes together, at most $total_bytes_max"
status=0
if [ "$total_bytes" -ge "$total_bytes_max" ]; then
  echo "$0: the tracked files are too large; the largest:" >&2
  git ls-files -z | xargs -0 -r stat -c '%s %n' -- | sort -rn | head -n 10 >&2
  status=1
fi

# One wc a file: over several it adds a line with their total.
too_long=$(git ls-files -z -- '*.cpp' '*.h' '*.cu' '*.cuh' | xargs -0 -r -n 1 wc -l |
  awk -v max=$source_lines_max '$1 > max { printf "%s: %d lines, at most %d\n", $2, $1, max }')
if [ -n "$too_long" ]; then
  echo "$too_long" >&2
  status=1
fi
exit $status
