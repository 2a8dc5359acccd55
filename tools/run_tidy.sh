#!/bin/sh
# Runs clang-tidy over the library and the program, two files at a time, those changed last first.
#   tools/run_tidy.sh [seconds]   begins no further file after that many seconds (default: no limit)
# Needs a configured build/. Fails on any finding; files that the limit left out are counted aloud.
set -eu
cd "$(dirname "$0")/.."

seconds_max=${1:-100000}
clang_tidy=clang-tidy-14
command -v "$clang_tidy" >/dev/null || { echo "$0: $clang_tidy is missing" >&2; exit 1; }
[ -e build/compile_commands.json ] || { echo "$0: build/ is not configured" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Uncommitted files come first, then files in the order of their last commit; awk keeps each name once. Only what this
# build compiles can be checked, so not the CUDA backend.
sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/compile_commands.json | sed "s|^$PWD/||; s|^$(pwd -P)/||" >"$work/compiled"
{
  git diff --name-only HEAD
  git log --format= --name-only
  git ls-files
} | awk '
  NR == FNR { compiled[$0] = 1; next }
  /^(src|apps)\/.*\.cpp$/ && ($0 in compiled) && !seen[$0]++' "$work/compiled" - >"$work/files"

total=$(wc -l <"$work/files")
deadline=$(($(date +%s) + seconds_max))
export clang_tidy deadline work
# A file's findings are printed in one piece, since two files are checked at a time.
status=0
# The build is g++'s: clang need not know every warning that it turns off.
# shellcheck disable=SC2016 # expanded by the inner shell
xargs -r -n 1 -P 2 sh -c '
  [ "$(date +%s)" -lt "$deadline" ] || exit 0
  echo "$1" >>"$work/begun"
  if ! output=$("$clang_tidy" -p build --quiet --extra-arg=-Wno-unknown-warning-option "$1" 2>&1); then
    printf "%s\n" "$output"
    exit 1
  fi' sh <"$work/files" || status=1

begun=0
if [ -e "$work/begun" ]; then begun=$(wc -l <"$work/begun"); fi
echo "clang-tidy: $begun of $total files checked"
[ "$begun" -eq "$total" ] || echo "clang-tidy: stopped after $seconds_max s; left out are the files changed longest ago"
exit $status
