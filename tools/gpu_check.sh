#!/bin/bash
# Runs the CUDA tests and benchmarks on a machine with a GPU, in about five minutes, from the folder that
# pack_gpu_check.sh made:   gpu_check.sh LOGS [tests] [bench] [model] [host] [compare] [sanitizer]
# None named: tests and bench. model: whole random models and where their time goes (2 minutes). host: experts in host
# memory against resident ones (2 minutes). compare: with compiled transformers (7 minutes; what COMPARE holds is added
# to its options).
# Every test case is a process of its own with a time limit, since a kernel that fails ends the process's use of the GPU,
# and one that hangs would hold up the rest. Writes LOGS/gpu_check.log, sanitizer.log, and bench.jsonl, model.jsonl,
# sweep.jsonl and compare.jsonl.
set -u

folder=$(cd "$(dirname "$0")" && pwd)
logs=${1:?"usage: $0 <folder for logs> [tests] [bench] [model] [host] [compare] [sanitizer]"}
shift
stages="${*:-tests bench}"
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
cd "$folder" || exit 1

find_libraries() {
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader
  site=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
  path=$folder/lib
  for candidate in "$site/nvidia/cu13/lib" "$site/nvidia/cublas/lib" /usr/local/cuda*/targets/x86_64-linux/lib /usr/local/cuda*/lib \
    /usr/local/cuda*/lib64; do
    if ls "$candidate"/libcublasLt.so.13* >/dev/null 2>&1; then
      echo "cuBLASLt: $(ls "$candidate"/libcublasLt.so.13*)"
      path=$path:$candidate
    fi
  done
  export LD_LIBRARY_PATH=$path
  ldd zp_cuda_ops_test | grep -E 'not found|cublas'
}

passed=0
failed=()
# run_cases PROGRAM SECONDS: every case of a test program.
run_cases() {
  local suite='' line
  while IFS= read -r line; do
    line=${line%%#*}
    case $line in
      ' '*) run_case "$1" "$2" "$suite$(echo "$line" | tr -d ' ')" ;;
      *) suite=$(echo "$line" | tr -d ' ') ;;
    esac
  done < <("./$1" --gtest_list_tests | grep -v '^Running')
}
run_case() {
  local output begin=$SECONDS
  output=$(timeout -k 5 "$2" "./$1" --gtest_brief=1 --gtest_filter="$3" 2>&1)
  local status=$?
  if [ $status -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok     $3 ($((SECONDS - begin)) s)$(echo "$output" | grep -i skipped | head -n 1)"
  else
    failed+=("$3")
    echo "FAILED $3 (status $status, $((SECONDS - begin)) s)"
    echo "$output" | grep -v '^\[' | cut -c 1-400 | head -n 12
  fi
}

run_tests() {
  run_cases zp_cuda_device_test 40
  run_cases zp_cuda_ops_test 60
  run_cases zp_cuda_engine_test 90
  for task in banking.yaml:banking.csv intent.yaml:intent.jsonl; do
    for device in cpu cuda; do
      echo "-- run --device $device ${task%%:*}"
      timeout 60 ./zeroprefill run --model models/demo-moe --device $device --dtype bf16 \
        --task "examples/tasks/${task%%:*}" --input "examples/rows/${task##*:}" --output "/tmp/answers_$device.jsonl" 2>&1 |
        tail -n 8
    done
    echo "answers that differ in text: $(diff /tmp/answers_cpu.jsonl /tmp/answers_cuda.jsonl | grep -c '^<') of" \
      "$(wc -l </tmp/answers_cpu.jsonl)"
    diff /tmp/answers_cpu.jsonl /tmp/answers_cuda.jsonl | cut -c 1-300 | head -n 4
  done
  echo "-- zeroprefill run --experts host"
  timeout 60 ./zeroprefill run --model models/demo-moe --device cuda --dtype bf16 --experts host \
    --task examples/tasks/banking.yaml --input examples/rows/banking.csv --output /tmp/answers_host.jsonl 2>&1 | tail -n 4
}

models='Qwen3-30B-A3B:48 Qwen3-235B-A22B:22'

run_model() {
  for model in $models; do
    timeout -k 5 150 ./model_bench --model "random:${model%%:*}" --layers "${model##*:}" --device cuda --stages \
      --shapes 32x512,8x4096,1x32768 --cell-seconds 15 --commit "$commit" --json "$logs/model_${model%%:*}.jsonl"
  done
  cat "$logs"/model_*.jsonl >"$logs/model.jsonl" && rm "$logs"/model_*.jsonl
}

# From an eighth to twice the tokens that hide a layer's experts: 1.2 GB by a link of 55 GB/s take 22 ms, in which one of
# 48 layers computes 80K tokens if the model as a whole computes 75K a second.
run_host() {
  timeout -k 5 180 ./model_bench --model random:Qwen3-30B-A3B --device cuda --experts resident,host \
    --modes gather-all,fetch-routed --sweep 80000 --cell-seconds 8 --commit "$commit" --json "$logs/sweep.jsonl"
}

# The peer finds its own libraries.
run_compare() {
  # shellcheck disable=SC2086 # COMPARE holds several options
  env -u LD_LIBRARY_PATH timeout -k 5 570 python3 compare_with_transformers.py --bench ./model_bench \
    --library-path "$LD_LIBRARY_PATH" --commit "$commit" --json "$logs/compare.jsonl" ${COMPARE:-}
}

# The checks make kernels many times slower, so only small cases.
run_sanitizer() {
  command -v compute-sanitizer >/dev/null || { echo "there is no compute-sanitizer"; return; }
  small='CudaRows.ResidualWithoutNormOnlyAdds:CudaRows.GatherRowsCopiesRows:CudaRows.StoreKvCopiesRowsAndNothingElse'
  small=$small:'*CudaMoe.NanStaysInItsToken*:*CudaAttention.NoTokens*:CudaHead.NoRowsAndNoCandidates'
  for tool in memcheck racecheck synccheck initcheck; do
    echo "-- compute-sanitizer $tool"
    timeout -k 5 60 compute-sanitizer --tool $tool ./zp_cuda_ops_test --gtest_brief=1 \
      --gtest_filter="$small:*CudaMoe.SeveralTilesEachWay/Tensor:*CudaAttention.LargeScoresAnywhere*" 2>&1 |
      tee -a "$logs/sanitizer.log" | tail -n 6
  done
}

main() {
  find_libraries
  if [[ " $stages " == *" tests "* ]]; then run_tests; fi
  if [[ " $stages " == *" bench "* ]]; then timeout -k 5 150 ./cuda_bench --json "$logs/bench.jsonl"; fi
  commit=$(cat commit)
  if [[ " $stages " == *" model "* ]]; then run_model; fi
  if [[ " $stages " == *" host "* ]]; then run_host; fi
  if [[ " $stages " == *" compare "* ]]; then run_compare; fi
  if [[ " $stages " == *" sanitizer "* ]]; then run_sanitizer; fi
  echo "passed: $passed, failed: ${#failed[@]} ${failed[*]:-}"
  [ ${#failed[@]} -eq 0 ]
}

main 2>&1 | tee "$logs/gpu_check.log"
exit "${PIPESTATUS[0]}"
