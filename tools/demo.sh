#!/bin/sh
# Runs every task of examples/tasks on the model that is shipped, and prints one line a task: how often the answers
# are right, how fast they came, and how much of the prompts was reused. Answers and summaries stay in build/demo.
set -eu
cd "$(dirname "$0")/.."

program=build/zeroprefill
model=models/demo-moe
out=build/demo

die() {
  echo "demo: $1" >&2
  exit 1
}
[ -x "$program" ] || die "$program is missing; run 'make demo' or 'make build'"
[ -d "$model" ] || die "the model $model is missing"
mkdir -p "$out"

# Prints the number that the summary $1 holds under the name $2, or nothing. The first one counts: the totals come before
# what each rank did. Nothing here may assume more of the machine than sed and awk, so that the demo needs no JSON tool.
field() {
  tr ',{}' '[\n*]' <"$1" | sed -n "s/^[[:space:]]*\"$2\"[[:space:]]*:[[:space:]]*\([-+0-9.eE]*\)[[:space:]]*\$/\1/p" | head -n 1
}

format='%-16s %7s %9s %9s %9s %10s %8s\n'
header() {
  # shellcheck disable=SC2059 # the format is ours
  printf "$format" task items accuracy majority items/s tokens/s reused
}

row() {
  awk -v task="$1" -v items="$(field "$2" items)" -v accuracy="$(field "$2" accuracy)" \
    -v majority="$(field "$2" majority_accuracy)" -v seconds="$(field "$2" wall_seconds)" \
    -v tokens_per_s="$(field "$2" tokens_per_s)" -v prompt="$(field "$2" prompt_tokens)" \
    -v cached="$(field "$2" cached_tokens)" -v format="$format" '
    function percent(value) { return value == "" ? "-" : sprintf("%.1f %%", 100 * value) }
    BEGIN {
      printf format, task, items, percent(accuracy), percent(majority),
        (seconds > 0 ? sprintf("%.1f", items / seconds) : "-"),
        (tokens_per_s == "" ? "-" : sprintf("%.0f", tokens_per_s)),
        (prompt > 0 ? sprintf("%.1f %%", 100 * cached / prompt) : "-")
    }'
}

table=$out/table.txt
header >"$table"
count=0
failed=""
for task in examples/tasks/*.yaml; do
  [ -e "$task" ] || die "there is no task in examples/tasks"
  name=$(basename "$task" .yaml)
  input=""
  for extension in jsonl csv tsv; do
    if [ -e "examples/rows/$name.$extension" ]; then input=examples/rows/$name.$extension; fi
  done
  [ -n "$input" ] || die "examples/rows/$name.jsonl (or .csv, .tsv) is missing, though $task is there"
  echo "== $name"
  status=0
  "$program" run --model "$model" --task "$task" --input "$input" --output "$out/$name.jsonl" \
    --summary "$out/$name.summary.json" || status=$?
  # 3: some items have an error, all others an answer.
  if [ "$status" = 0 ] || [ "$status" = 3 ]; then
    row "$name" "$out/$name.summary.json" >>"$table"
    errors=$(field "$out/$name.summary.json" errors)
    [ "${errors:-0}" = 0 ] || echo "demo: $errors items of $name have an error; see $out/$name.jsonl" >&2
  else
    failed="$failed $name"
  fi
  count=$((count + 1))
done

echo
echo "$count tasks on $model; answers in $out/<task>.jsonl, all figures in $out/<task>.summary.json."
echo "accuracy: share of answers equal to the label. majority: what always giving the commonest label would reach."
echo "reused: share of the prompt tokens whose computation a shared prefix saved."
echo
cat "$table"
[ -z "$failed" ] || die "these tasks failed:$failed"
