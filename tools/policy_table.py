#!/usr/bin/env python3
"""Simulates every policy on 1 to 8 ranks and prints the Markdown tables of docs/notes/policies.md.

    tools/policy_table.py build/zeroprefill WORKLOAD... [--ranks 1,2,4] [--jobs 2] [--json FILE] [-- options of simulate]

A workload is `paper` or the path of anything that `simulate --trace` reads (Mooncake, agent calls, Azure, lengths,
ServeGen's chunk-N-dataset.json), followed by any of
    :shuffled    in an order drawn with seed 1, instead of the source's
    :alone       the same lengths, but nothing shared
    :timed       requests arrive when the trace says, instead of all at once
    :share=0.1   only so much of it
as in paper:alone:shuffled. A cell of the table is

    makespan in seconds · hits as a share of all tokens · computed tokens · the busiest rank's compute over the mean

with a * if its makespan is below that of our policy, the first. A list of these losses comes last. --json appends a line
for each cell.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import result_line

OURS = "prefix-saturation"
POLICIES = [OURS, "round-robin", "vllm", "least-tokens", "shortest-prefill"]
SEED = 1  # of orders that are drawn
PART_OF_WORKLOAD = {"--seed", "--order", "--share", "--arrivals", "--no-sharing", "--mix", "--trace", "--ranks", "--policy"}
FORMS = {"shuffled": ["--order", "shuffled", "--seed", str(SEED)], "alone": ["--no-sharing"], "timed": ["--arrivals", "trace"]}


class Workload:
    """What `simulate` is given for a workload, and what the tables call it."""

    def __init__(self, text):
        self.source, *forms = text.split(":")
        self.shuffled = "shuffled" in forms
        stem = pathlib.Path(self.source).name
        for suffix in (".jsonl", ".csv", ".json"):
            stem = stem.removesuffix(suffix)
        self.name = ":".join([stem, *forms])
        # Lines of results call it by what it holds; its order is a field of its own.
        self.contents = ":".join([stem, *(form for form in forms if form != "shuffled")])
        self.form_options = []
        for form in forms:
            if form.startswith("share="):
                self.form_options += ["--share", form.removeprefix("share=")]
            elif form in FORMS:
                self.form_options += FORMS[form]
            else:
                sys.exit(f"{text}: '{form}' is none of {', '.join(FORMS)}, share=PART")

    def options(self, named_only=False):
        """For `simulate`. `named_only`: without the folder, for results."""
        if self.source == "paper":
            return ["--mix", "paper", *self.form_options]
        return ["--trace", pathlib.Path(self.source).name if named_only else self.source, *self.form_options]


def simulate(program, workload, ranks, policy, extra):
    """One cell, as a line of results."""
    rest = ["--ranks", str(ranks), "--policy", policy, *extra]
    command = [program, "simulate", *workload.options(), *rest, "--json", "-"]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{finished.stderr.strip()}")
    report = json.loads(finished.stdout)
    return {"bench": "policy_table", "workload": workload.contents, "order": "shuffled" if workload.shuffled else "source",
            "ranks": ranks, "policy": policy, "makespan_seconds": report["makespan_seconds"],
            "hit_rate": report["hit_rate"], "hit_rate_bound": report["hit_rate_bound"],
            "computed_tokens": report["computed_tokens"], "load_spread": report["load_spread"],
            "tokens_per_s": report["tokens_per_second"],
            "command": " ".join(["zeroprefill", "simulate", *workload.options(named_only=True), *rest])}


def recorded(cell, commit):
    """A cell as it is written down: nothing runs, so its figures are all of its output."""
    return result_line.result_line(cell, command=cell["command"], commit=commit, device="none: virtual time", seed=SEED,
                                   output=None)


def header():
    columns = ["workload", "ranks", "bound", *POLICIES]
    return "| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|"


def is_loss(cell, ours):
    return cell["makespan_seconds"] < ours["makespan_seconds"]


def seconds(value):
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def row(name, cells):
    """`cells`: of all policies, ours first."""
    ours = cells[0]
    texts = [f"{seconds(cell['makespan_seconds'])}{'*' if is_loss(cell, ours) else ''} · {100 * cell['hit_rate']:.1f} %"
             f" · {cell['computed_tokens'] / 1e6:.2f}M · {cell['load_spread']:.2f}" for cell in cells]
    return f"| {name} | {ours['ranks']} | {100 * ours['hit_rate_bound']:.1f} % | " + " | ".join(texts) + " |"


def losses(rows):
    """Where ours takes longer, worst first; `rows` are pairs of name and cells."""
    found = []
    for name, cells in rows:
        ours = cells[0]
        for cell in cells[1:]:
            if is_loss(cell, ours):
                longer = ours["makespan_seconds"] / cell["makespan_seconds"] - 1
                ranks = f"{cell['ranks']} rank{'s' if cell['ranks'] > 1 else ''}"
                found.append((longer, f"{name}, {ranks}: {100 * longer:.2f} % longer than {cell['policy']} "
                                      f"({ours['makespan_seconds']:.2f} s, {cell['makespan_seconds']:.2f} s)"))
    found.sort(key=lambda loss: -loss[0])
    count = len(rows) * (len(POLICIES) - 1)
    title = f"Ours takes longer in {len(found)} of {count} comparisons" + (":\n" if found else ".")
    return "\n".join([title, *(f"- {text}" for _, text in found)])


def arguments():
    argv = sys.argv[1:]
    split = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/zeroprefill")
    parser.add_argument("workloads", nargs="+", metavar="WORKLOAD")
    parser.add_argument("--ranks", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="simulations at once; default: one a core")
    parser.add_argument("--json", type=pathlib.Path, help="append a JSON line a cell to this file")
    result_line.add_commit_option(parser)
    options = parser.parse_args(argv[:split])
    options.commit = result_line.commit_of(options) if options.json else None
    if options.json:
        result_line.require_writable(parser, "--json", options.json)
    try:
        options.ranks = [int(ranks) for ranks in options.ranks.split(",")]
    except ValueError:
        parser.error(f"--ranks is '{options.ranks}'; it must be whole numbers, such as 1,2,4,8")
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}; it must be at least 1")
    options.workloads = [Workload(text) for text in options.workloads]
    options.extra = argv[split + 1:]
    for option in options.extra:
        if option.split("=")[0] in PART_OF_WORKLOAD:
            parser.error(f"{option} after --: it is part of a workload (paper:shuffled:share=0.1), so that tables and "
                         f"lines say it")
    return options


def main():
    options = arguments()
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = [(workload, [pool.submit(simulate, options.program, workload, ranks, policy, options.extra)
                               for policy in POLICIES])
                   for workload in options.workloads for ranks in options.ranks]
        print(header(), flush=True)
        try:
            for workload, futures in waiting:
                cells = [future.result() for future in futures]
                rows.append((workload.name, cells))
                print(row(workload.name, cells), flush=True)
                if options.json:
                    with options.json.open("a", encoding="utf-8") as file:
                        file.writelines(json.dumps(recorded(cell, options.commit)) + "\n" for cell in cells)
        except RuntimeError as error:
            pool.shutdown(cancel_futures=True)
            sys.exit(str(error))
    print("\n" + losses(rows))


if __name__ == "__main__":
    main()
