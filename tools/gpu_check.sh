#!/bin/bash
# Runs the CUDA tests and benchmarks on a machine with a GPU, in about five minutes, from the folder that
# pack_gpu_check.sh made:   gpu_check.sh LOGS [tests] [bench] [load] [model] [host] [peers] [compare] [sanitizer]
# None named: tests and bench. model: whole random models and where their time goes (2 minutes). host: experts in host
# memory against resident ones (2 minutes). load: a large checkpoint (2 minutes). peers: operations beside PyTorch's (2 minutes).
# compare: with compiled transformers (7 minutes; what COMPARE holds is added to its options).
# Every test case is a process of its own with a time limit, since a kernel that fails ends the process's use of the GPU,
# and one that hangs would hold up the rest. Writes LOGS/gpu_check.log, sanitizer.log, and bench.jsonl, load.jsonl, model.jsonl,
# sweep.jsonl, peers.jsonl and compare.jsonl.
set -u

folder=$(cd "$(dirname "$0")" && pwd)
logs=${1:?"usage: $0 <folder for logs> [tests] [bench] [load] [model] [host] [peers] [compare] [sanitizer]"}
shift
stages="${*:-tests bench}"
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)
cd "$folder" || exit 1

find_libraries() {
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader || failed+=("no GPU")
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
skipped=0
failed=()
sanitizer_findings=0
# attempt NAME COMMAND...: counts a command that fails.
attempt() {
  "${@:2}"
  local status=$?
  [ $status -eq 0 ] || { failed+=("$1"); echo "FAILED $1 (status $status)"; }
}
# run_cases PROGRAM SECONDS: every case of a test program.
run_cases() {
  local name
  while IFS= read -r name; do run_case "$1" "$2" "$name"; done < <(list_cases "$1")
}
# list_cases PROGRAM: the names of all its cases, one a line.
list_cases() {
  local suite='' line
  while IFS= read -r line; do
    line=${line%%#*}
    case $line in
      ' '*) echo "$suite$(echo "$line" | tr -d ' ')" ;;
      *) suite=$(echo "$line" | tr -d ' ') ;;
    esac
  done < <("./$1" --gtest_list_tests | grep -v '^Running')
}
run_case() {
  local output begin=$SECONDS
  output=$(timeout -k 5 "$2" "./$1" --gtest_brief=1 --gtest_filter="$3" 2>&1)
  local status=$?
  if [ $status -eq 0 ] && grep -q 'SKIPPED' <<<"$output"; then
    skipped=$((skipped + 1))
    echo "skip   $3 $(grep -v '^\[' <<<"$output" | grep -i skipped | cut -c 1-200 | head -n 1)"
  elif [ $status -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok     $3 ($((SECONDS - begin)) s)"
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
  run_cases zp_cuda_fault_test 60
  for task in banking.yaml:banking.csv intent.yaml:intent.jsonl; do
    for device in cpu cuda; do
      echo "-- run --device $device ${task%%:*}"
      attempt "run on $device" answer $device resident "${task%%:*}" "${task##*:}"
    done
    attempt "the CPU's answers" compare_answers
  done
  echo "-- zeroprefill run --experts host"
  attempt "run from host memory" answer cuda host banking.yaml banking.csv
}
# shellcheck disable=SC2317 # reached by way of attempt
# answer DEVICE EXPERTS TASK ROWS: answers of the shipped model in /tmp/answers_DEVICE.jsonl.
answer() {
  timeout 60 ./zeroprefill run --model models/demo-moe --device "$1" --dtype bf16 --experts "$2" \
    --task "examples/tasks/$3" --input "examples/rows/$4" --output "/tmp/answers_$1.jsonl" >/tmp/answer.log 2>&1
  local status=$?
  tail -n 8 /tmp/answer.log
  return "$status"
}
# shellcheck disable=SC2317 # likewise
# Probabilities differ by roundings: bf16 sums in another order. The answers must not.
compare_answers() {
  python3 - /tmp/answers_cpu.jsonl /tmp/answers_cuda.jsonl <<'CODE'
import json, sys
cpu, gpu = ([json.loads(line) for line in open(path, encoding="utf-8")] for path in sys.argv[1:])
other = [a["id"] for a, b in zip(cpu, gpu) if a.get("answer") != b.get("answer")]
print(f"{len(other)} of {len(cpu)} answers differ from the CPU's {other[:5]}")
sys.exit(bool(other) or len(cpu) != len(gpu) or not cpu)
CODE
}

models='Qwen3-30B-A3B:48 Qwen3-235B-A22B:22'

run_model() {
  for model in $models; do
    attempt "model_bench $model" timeout -k 5 150 ./model_bench --model "random:${model%%:*}" --layers "${model##*:}" --device cuda --stages \
      --shapes 32x512,8x4096,1x32768 --cell-seconds 15 --commit "$commit" --json "$logs/model_${model%%:*}.jsonl"
  done
  cat "$logs"/model_*.jsonl >"$logs/model.jsonl" && rm "$logs"/model_*.jsonl
}

# From an eighth to twice the tokens that hide a layer's experts: 1.2 GB by a link of 55 GB/s take 22 ms, in which one of
# 48 layers computes 80K tokens if the model as a whole computes 75K a second.
run_host() {
  attempt "experts in host memory" timeout -k 5 180 ./model_bench --model random:Qwen3-30B-A3B --device cuda --experts resident,host \
    --modes gather-all,fetch-routed --sweep 80000 --cell-seconds 8 --commit "$commit" --json "$logs/sweep.jsonl"
}

# Peers find their own libraries.
run_peers() {
  attempt peers env -u LD_LIBRARY_PATH timeout -k 5 240 python3 compare_operations.py --bench ./cuda_bench \
    --library-path "$LD_LIBRARY_PATH" --commit "$commit" --json "$logs/peers.jsonl"
}
run_compare() {
  # shellcheck disable=SC2086 # COMPARE holds several options
  attempt compare env -u LD_LIBRARY_PATH timeout -k 5 570 python3 compare_with_transformers.py --bench ./model_bench \
    --library-path "$LD_LIBRARY_PATH" --commit "$commit" --json "$logs/compare.jsonl" ${COMPARE:-}
}

# A checkpoint of Qwen3-30B-A3B's width and 17 layers (22 GB) on disk, loaded to the GPU and to pinned memory.
run_load() {
  local checkpoint=/tmp/load_bench_checkpoint experts
  for experts in resident host; do
    attempt "load_bench $experts" timeout -k 5 150 ./load_bench --device cuda --model Qwen3-30B-A3B --layers 17 --folder $checkpoint \
      --experts $experts --repeat 3 --commit "$commit" --json "$logs/load.jsonl"
  done
  rm -rf $checkpoint
}

# sanitize TOOL CASE: one case under one tool of compute-sanitizer, on one line of $scratch/results, with its output in
# $scratch/details unless it is clean. Called by xargs, in processes of their own.
# shellcheck disable=SC2317 # reached by way of xargs
sanitize() {
  local left=$((SANITIZER_END - $(date +%s))) output status verdict
  if [ "$left" -le 2 ]; then
    echo "not_run $1 $2" >>"$scratch/results"
    return
  fi
  # initcheck does not see what cuBLASLt's kernels store by the copy engine, so what the head reads of their products would
  # be found, a thousand times over.
  local unseen=()
  [[ "$1 $2" == 'initcheck CudaHead'* ]] && unseen=(--kernel-name-exclude kernel_substring=head_)
  output=$(timeout -k 5 $((left < 110 ? left : 110)) compute-sanitizer --tool "$1" "${unseen[@]}" --error-exitcode 33 \
    ./zp_cuda_ops_test --gtest_brief=1 --gtest_filter="$2" 2>&1)
  status=$?
  case $status in
    0) verdict=clean ;;
    33) verdict=found ;;
    124 | 137) verdict=unfinished ;;
    *) verdict=failed ;;
  esac
  echo "$verdict $1 $2" >>"$scratch/results"
  [ "$verdict" = clean ] && return
  # One write, so that the lines of two processes do not mix.
  printf '%s\n' "== $verdict (status $status): $1 $2" "$(echo "$output" | cut -c 1-300 | head -n 60)" \
    >>"$scratch/details"
}

# All four tools over the cases of the operations, several processes at a time, within four minutes. The cases that
# repeat the others' kernels to compare bits are left out, being slow; so are, for two tools that would spend their time in
# cuBLAS's kernels, the dense products.
run_sanitizer() {
  command -v compute-sanitizer >/dev/null || { echo "there is no compute-sanitizer"; sanitizer_findings=1; return; }
  scratch=$(mktemp -d)
  export scratch SANITIZER_END=$(($(date +%s) + 235))
  export -f sanitize
  local repeats='SameBits|BitsDoNotDepend|MetadataSurvives|^ExpertLayout' tool
  : >"$scratch/results"
  : >"$scratch/details"
  list_cases zp_cuda_ops_test | grep -v -E "$repeats" >"$scratch/cases"
  # The slowest first: each tool's time is that of its longest case.
  for tool in racecheck initcheck memcheck synccheck; do
    grep -E 'Attention|Moe|Head' "$scratch/cases" | sed "s/^/$tool /"
  done | grep -v -E '^(racecheck|synccheck) CudaHead.Matches' >"$scratch/jobs"
  for tool in racecheck initcheck memcheck synccheck; do
    grep -v -E 'Attention|Moe|Head' "$scratch/cases" | sed "s/^/$tool /"
  done | grep -v -E '^(racecheck|synccheck) CudaLinear' >>"$scratch/jobs"
  local processes=$(($(nproc) > 4 ? $(nproc) - 2 : 2)) begin=$SECONDS
  # shellcheck disable=SC2016 # the other shell expands them
  xargs -P "$processes" -L 1 bash -c 'sanitize "$1" "$2"' _ <"$scratch/jobs"
  for tool in memcheck racecheck synccheck initcheck; do
    printf 'compute-sanitizer %-9s' $tool
    for verdict in clean found failed unfinished not_run; do
      printf ' %s %d' $verdict "$(grep -c "^$verdict $tool " "$scratch/results")"
    done
    echo
  done
  grep -v '^clean' "$scratch/results"
  sanitizer_findings=$(grep -v -c '^clean' "$scratch/results")
  echo "compute-sanitizer: $((SECONDS - begin)) s, $processes processes at a time"
  { sort "$scratch/results"; cat "$scratch/details"; } >"$logs/sanitizer.log"
  rm -r "$scratch"
}

main() {
  find_libraries
  commit=$(cat commit)
  if [[ " $stages " == *" tests "* ]]; then run_tests; fi
  if [[ " $stages " == *" bench "* ]]; then attempt cuda_bench timeout -k 5 150 ./cuda_bench --commit "$commit" --json "$logs/bench.jsonl"; fi
  if [[ " $stages " == *" load "* ]]; then run_load; fi
  if [[ " $stages " == *" model "* ]]; then run_model; fi
  if [[ " $stages " == *" host "* ]]; then run_host; fi
  if [[ " $stages " == *" peers "* ]]; then run_peers; fi
  if [[ " $stages " == *" compare "* ]]; then run_compare; fi
  if [[ " $stages " == *" sanitizer "* ]]; then run_sanitizer; fi
  [[ " $stages " == *" tests "* ]] && [ $passed -eq 0 ] && failed+=("no test ran")
  echo "passed: $passed, skipped: $skipped, failed: ${#failed[@]} ${failed[*]:-}"
  [ ${#failed[@]} -eq 0 ] && [ "$sanitizer_findings" -eq 0 ]
}

main 2>&1 | tee "$logs/gpu_check.log"
exit "${PIPESTATUS[0]}"
