#!/usr/bin/env python3
"""Runs the six-benchmark mix of MoE-Prefill (arXiv 2605.02960, Table 2) through `zeroprefill run`, with prefix caching
and without, and reports tokens a second and how long the device had nothing to do.

    tools/run_mix.py build-cuda/zeroprefill --model MODEL --share 0.02 [--device cuda] [--json FILE] [--seed 1] [-- options of `run`]

The requests are those of `zeroprefill simulate --mix paper`: token ids with the lengths and the sharing of the mix,
which any model takes. With --texts DIR the questions of MMLU (behind the five examples of their subject) and of BoolQ
are real texts instead, for a model with a tokenizer; DIR has multiple_choice/mmlu/*_test.csv, *_dev.csv and
fact_checking/boolq/test.json.

Three runs of the same requests: "cached" keeps keys and values between steps; "step" keeps none (--kv-cache 0), so only
requests of one step share; "alone" has the same lengths (texts: and a number before each) but nothing to share, which is
what there is to do without prefix caching. The first two must answer alike. Device idle time is that between the first step's beginning and the last
one's end on the device; it must stay below --idle-max.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import result_line

RUNS = ["cached", "step", "alone"]
LETTERS = [" A", " B", " C", " D"]


def arguments():
    argv = sys.argv[1:]
    split = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/zeroprefill")
    parser.add_argument("--model", required=True, help="as for `run`: a folder, or random:NAME")
    parser.add_argument("--shape", help="folder or known name whose vocabulary the ids are for; default: the model's")
    parser.add_argument("--device", default="cuda", help="default: %(default)s; build/zeroprefill has only cpu")
    parser.add_argument("--share", type=float, default=0.02, help="part of the mix's 73,800 requests")
    parser.add_argument("--longest", type=int, default=0, help="leave out requests of more tokens; 0: none")
    parser.add_argument("--order", choices=["source", "shuffled"], default="source")
    parser.add_argument("--seed", type=int, default=1, help="of a shuffled order, and of a random model")
    parser.add_argument("--texts", type=pathlib.Path, help="folder of real texts")
    parser.add_argument("--kv-cache", help="memory for kept keys and values in the cached run; default: the engine's")
    parser.add_argument("--runs", default=",".join(RUNS), help="default: %(default)s")
    parser.add_argument("--idle-max", type=float, default=0.03)
    parser.add_argument("--json", type=pathlib.Path, help="append a JSON line a run to this file")
    result_line.add_commit_option(parser)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for requests, answers and summaries")
    options = parser.parse_args(argv[:split])
    options.run_options = argv[split + 1:]
    names = options.runs.split(",")
    if not set(names) <= set(RUNS) or len(set(names)) < len(names):
        parser.error(f"--runs is '{options.runs}'; it must be of {', '.join(RUNS)}, each once")
    if not 0 < options.share <= 1:
        parser.error(f"--share is {options.share}; it must lie in (0, 1]")
    if options.longest < 0:
        parser.error(f"--longest is {options.longest}; it must be 0, for all, or more")
    if not 0 <= options.idle_max <= 1:
        parser.error(f"--idle-max is {options.idle_max}; it must lie in [0, 1]")
    if options.texts and not options.texts.is_dir():
        parser.error(f"--texts: there is no folder {options.texts}")
    options.commit = result_line.commit_of(options) if options.json else None
    if options.json:
        result_line.require_writable(parser, "--json", options.json)
    options.shape = options.shape or options.model.removeprefix("random:")
    return options


def checked(command, exit_codes=(0,)):
    """Runs it; what it says where it fails is the last that this says."""
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")
    if finished.returncode not in exit_codes:
        sys.exit(f"{' '.join(command)}\nfailed:\n{finished.stderr[-3000:]}")
    return finished.stdout


def write_requests(options, folder, alone):
    """The mix's rows, as a file."""
    path = folder / ("alone.jsonl" if alone else "shared.jsonl")
    command = [options.program, "simulate", "--mix", "paper", "--model", options.shape, "--share", str(options.share),
               "--order", options.order, "--seed", str(options.seed), "--write-requests", str(path)] + (["--no-sharing"] if alone else [])
    print("requests:", checked(command).strip(), flush=True)
    rows = [json.loads(line) for line in path.open()]
    if options.longest:
        rows = [row for row in rows if len(row["tokens"]) <= options.longest]
        if not rows:
            sys.exit(f"--longest {options.longest} leaves no request")
    if options.texts:
        rows = with_texts(rows, options.texts, alone)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path, len(rows)


def mmlu_prompts(folder):
    """Prompts of all subjects, those of a subject one after another: its five examples, then the question."""
    prompts = []
    for test in sorted((folder / "multiple_choice/mmlu").glob("*_test.csv")):
        subject = test.name.removesuffix("_test.csv")
        head = f"The following are multiple choice questions about {subject.replace('_', ' ')}.\n\n"
        for row in csv.DictReader((test.parent / f"{subject}_dev.csv").open(newline="")):
            head += question(row) + f" {answer_letter(row)}\n\n"
        prompts += [(head + question(row), LETTERS) for row in csv.DictReader(test.open(newline=""))]
    return prompts


def question(row):
    choices = "".join(f"{letter.strip()}. {row[f'choice{i}']}\n" for i, letter in enumerate(LETTERS))
    return f"{row['question']}\n{choices}Answer:"


def answer_letter(row):
    answer = row["answer"].strip()
    return LETTERS[int(answer)].strip() if answer.isdigit() else answer


def boolq_prompts(folder):
    items = json.loads((folder / "fact_checking/boolq/test.json").read_text())
    return [(item["instruction"].strip() + "\nAnswer:", [" yes", " no"]) for item in items]


def with_texts(rows, folder, alone):
    """Replaces rows of MMLU and BoolQ by real ones, as far as there are any; with a number before each if it is to share
    nothing."""
    texts = {"MMLU": mmlu_prompts(folder), "BoolQ": boolq_prompts(folder)}
    counts = {source: sum(row["id"].startswith(source + "/") for row in rows) for source in texts}
    # Neighbours share their examples: take blocks of a subject rather than every so many-th question.
    left = {source: iter(prompts[:counts[source]]) for source, prompts in texts.items()}
    made = []
    for row in rows:
        prompt = next(left.get(row["id"].split("/")[0], iter(())), None)
        if prompt:
            number = f"{row['id']}. " if alone else ""
            row = {"id": row["id"], "context": number + prompt[0], "candidates": prompt[1]}
        made.append(row)
    replaced = {source: min(counts[source], len(prompts)) for source, prompts in texts.items()}
    print("real texts:", replaced, "of", counts, flush=True)
    return made


def run(options, name, rows, folder):
    """One run; its summary."""
    summary = folder / f"{name}.summary.json"
    command = [options.program, "run", "--model", options.model, "--device", options.device, "--input", str(rows),
               "--output", str(folder / f"{name}.answers.jsonl"), "--summary", str(summary)]
    if name == "step":
        command += ["--kv-cache", "0"]
    elif options.kv_cache:
        command += ["--kv-cache", options.kv_cache]
    if options.model.startswith("random:"):
        command += ["--random-seed", str(options.seed)]
    command += options.run_options
    checked(command, exit_codes=(0, 3))  # 3: some rows have an error, which the summary counts
    return json.loads(summary.read_text())


def idle_of(summary):
    """The largest share of a rank's time without a step; None if the program does not tell."""
    shares = [rank["idle_fraction"] for rank in summary["ranks"] or [] if "idle_fraction" in rank]
    return max(shares) if shares else None


def answers(path):
    """What was answered, without what depends on caching."""
    lines = [json.loads(line) for line in path.open()]
    for line in lines:
        for key in ("cached_tokens", "computed_tokens"):
            line.pop(key, None)
            line.get("usage", {}).pop(key, None)
    return lines


def report(name, summary):
    tokens = summary["prompt_tokens"]
    reused = summary["cached_tokens"] / tokens if tokens else 0
    idle = idle_of(summary)
    print(f"{name:<8}{summary['answered']:>7} answered, {summary['errors']} errors{tokens:>12} tokens"
          f"{100 * reused:>7.1f} % reused{summary['wall_seconds']:>9.2f} s{summary['tokens_per_s']:>10.0f} tokens/s"
          f"{summary['computed_tokens_per_s']:>10.0f} computed/s   device idle "
          + ("not told" if idle is None else f"{100 * idle:.2f} %"), flush=True)


def record(options, name, summary, found):
    """`found`: answers()."""
    if not options.json:
        return
    line = {"bench": "mix", "run": name, "model": options.model, "layers": summary["layers"], "dtype": summary["dtype"],
            "strategy": summary["strategy"], "texts": options.texts is not None, "share": options.share,
            "order": options.order, "gpus": len(summary["ranks"] or [1]), "experts": summary["experts"],
            "requests": summary["items"], "errors": summary["errors"], "tokens": summary["prompt_tokens"],
            "cached_tokens": summary["cached_tokens"], "steps": summary["steps"],
            "wall_seconds": summary["wall_seconds"], "tokens_per_s_per_gpu":
            summary["tokens_per_s"] / len(summary["ranks"] or [1]),
            "computed_tokens_per_s": summary["computed_tokens_per_s"], "idle_fraction": idle_of(summary),
            "exposed_fraction": summary["exposed_fraction"]}
    line = result_line.result_line(line, command=" ".join(["run_mix.py", *sys.argv[1:]]), commit=options.commit,
                                   device=summary["device"], seed=options.seed,
                                   output=json.dumps(found, sort_keys=True).encode())
    with options.json.open("a") as file:
        file.write(json.dumps(line) + "\n")


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        names = options.runs.split(",")
        rows = {alone: write_requests(options, folder, alone)[0] for alone in {name == "alone" for name in names}}
        summaries = {}
        for name in names:
            summaries[name] = run(options, name, rows[name == "alone"], folder)
            report(name, summaries[name])
            record(options, name, summaries[name], answers(folder / f"{name}.answers.jsonl"))
        problems = [f"{name}: {s['errors']} of {s['items']} requests failed: {s['errors_by_code']}"
                    for name, s in summaries.items() if s["errors"]]
        for name, summary in summaries.items():
            idle = idle_of(summary)
            if idle is not None and idle > options.idle_max:
                problems.append(f"{name}: the device was idle {100 * idle:.2f} % of the time")
        if {"cached", "step"} <= summaries.keys():
            pairs = zip(answers(folder / "cached.answers.jsonl"), answers(folder / "step.answers.jsonl"), strict=True)
            differ = sum(a != b for a, b in pairs)
            print(f"answers that depend on caching: {differ}")
            if differ:
                problems.append(f"{differ} answers depend on caching")
        if "cached" in summaries:
            for other in set(names) - {"cached"}:
                gain = summaries["cached"]["tokens_per_s"] / summaries[other]["tokens_per_s"]
                print(f"cached is {gain:.2f} times as fast as {other}")
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()
