#!/usr/bin/env python3
"""Simulates every policy on 1, 2, 4 and 8 ranks and prints a Markdown table (docs/notes/scheduling.md).

    tools/policy_table.py build/zeroprefill WORKLOAD... [--ranks 1,2,4,8] [-- options of `zeroprefill simulate`]

A workload is paper, paper:shuffled, paper:alone (no sharing), or the path of a trace (path:shuffled likewise).
"""

import argparse
import json
import subprocess
import sys

POLICIES = ["prefix-saturation", "round-robin", "vllm", "least-tokens", "shortest-prefill"]


def workload_options(workload):
    """The options of `simulate` that describe a workload, and its name in the table."""
    source, *forms = workload.split(":")
    options = ["--mix", "paper"] if source == "paper" else ["--trace", source]
    for form in forms:
        if form == "shuffled":
            options += ["--order", "shuffled", "--seed", "1"]
        elif form == "alone":
            options += ["--no-sharing"]
        else:
            sys.exit(f"{workload}: '{form}' is neither shuffled nor alone")
    return options, ":".join([source.rstrip("/").split("/")[-1], *forms])


def main():
    arguments = sys.argv[1:]
    extra = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, extra = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("workloads", nargs="+")
    parser.add_argument("--ranks", default="1,2,4,8")
    args = parser.parse_args(arguments)
    print("| workload | ranks | policy | makespan s | tokens/s | hit % (bound) | computed M | spread | idle % | exposed % |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for workload in args.workloads:
        options, name = workload_options(workload)
        for ranks in args.ranks.split(","):
            for policy in POLICIES:
                command = [args.program, "simulate", *options, "--ranks", ranks, "--policy", policy, "--json", "-", *extra]
                report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                print(f"| {name} | {ranks} | {policy} | {report['makespan_seconds']:.1f} | {report['tokens_per_second']:.0f} "
                      f"| {100 * report['hit_rate']:.1f} ({100 * report['hit_rate_bound']:.1f}) "
                      f"| {report['computed_tokens'] / 1e6:.2f} | {report['load_spread']:.3f} "
                      f"| {100 * report['idle_share']:.1f} | {100 * report['exposed_share']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
