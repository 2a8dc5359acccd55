#!/bin/sh
# Gathers what a machine with a GPU needs to run the CUDA tests and benchmarks, built here, into one small folder:
#   tools/pack_gpu_check.sh build-cuda /tmp/gpu_check      then, there:   /tmp/gpu_check/gpu_check.sh LOGS
# The CUDA libraries are left out, being large: a machine with a GPU has them, and the script finds them.
set -eu

build=${1:?"usage: $0 <build folder> <folder to make>"}
target=${2:?"usage: $0 <build folder> <folder to make>"}
source=$(cd "$(dirname "$0")/.." && pwd)
programs="zeroprefill tests/zp_cuda_device_test tests/zp_cuda_ops_test tests/zp_cuda_engine_test tests/zp_cuda_fault_test
  bench/cuda_bench bench/load_bench bench/model_bench"
for program in $programs; do
  [ -x "$build/$program" ] || { echo "$0: $build/$program is not built" >&2; exit 1; }
done
mkdir -p "$target/lib" "$target/models" "$target/tests/data"
for program in $programs; do
  cp -u "$build/$program" "$target/"
  ldd "$build/$program"
done |
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -v -E '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libcuda|libcublas|libcublasLt)\.so' |
  while IFS= read -r library; do cp -uL "$library" "$target/lib/"; done
cp -ru "$source/models/demo-moe" "$target/models/"
cp -u "$source/tests/data/demo_prompts.jsonl" "$target/tests/data/"
cp -ru "$source/examples" "$target/"
cp -u "$source/tools/gpu_check.sh" "$source/tools/run_mix.py" "$source/tools/compare_with_transformers.py" \
  "$source/tools/compare_operations.py" "$source/tools/result_line.py" "$target/"
git -C "$source" rev-parse --short HEAD >"$target/commit" 2>/dev/null || echo unknown >"$target/commit"
du -sh "$target"
