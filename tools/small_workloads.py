#!/usr/bin/env python3
"""Compares policies on small seeded workloads in which few long requests are a good part of all the work.

    tools/small_workloads.py build/zeroprefill FROM TO

Prints, for seeds FROM to TO - 1, what does not come within 1 % of the best other policy, then the worst and the mean.
Workloads are written as agent calls: four characters a token, equal texts are equal tokens.
"""
import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

OURS = "prefix-saturation"
POLICIES = (OURS, "round-robin", "vllm", "least-tokens", "shortest-prefill")
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
MODELS = {"Qwen3-235B-A22B": ["--dtype", "fp8", "--kv-memory", "64GiB"], "Qwen3-30B-A3B": ["--kv-memory", "48GiB"]}


def token(text):
    out = ""
    for _ in range(4):
        out = DIGITS[text % 36] + out
        text //= 36
    return out


def workload(seed):
    """Ranks, the model's name, and requests as lists of (text, tokens)."""
    r = random.Random(seed)
    ranks = r.randint(1, 8)
    model = r.choices(list(MODELS), [3, 1])[0]
    step_tokens = 17000 if model == "Qwen3-235B-A22B" else 16000
    total = step_tokens * ranks * math.exp(r.uniform(math.log(0.7), math.log(12)))
    texts = iter(range(1, 36**4))
    long_count = r.choice([0, 1, 1, 2, 3, ranks - 1, ranks, ranks + 1, 2 * ranks])
    long_share = r.uniform(0.05, 0.7)
    grouped = r.choice(["alone", "alone", "group"]) == "group"
    lengths = []
    for _ in range(long_count):
        length = int(math.exp(r.uniform(math.log(8000), math.log(100000))))
        lengths.append(int(total) if length > 1.2 * total else length)
    longs = []
    for length in lengths:
        if sum(count for request in longs for _, count in request) > long_share * total * 2:
            break
        text = next(texts)
        if grouped:
            for _ in range(r.randint(2, 20)):
                longs.append([(text, length), (next(texts), r.randint(20, 400))])
        else:
            longs.append([(text, length)])
    sharing = r.choice(["none", "none", "docs", "instr", "mixed"])
    mean = r.choice([60, 200, 500, 1500])
    done = sum(count for request in {tuple(q[0]): q for q in longs}.values() for _, count in request)
    instruction = next(texts)
    shorts = []
    while done < total and len(shorts) < 6000:
        kind = sharing if sharing != "mixed" else r.choice(["none", "docs", "instr"])
        if kind == "docs":
            text = next(texts)
            prefix = int(r.choice([128, 1024, 4096, 10000]) * r.uniform(0.6, 1.4))
            done += prefix
            for _ in range(r.randint(3, 25)):
                count = max(8, int(r.expovariate(1 / mean)))
                shorts.append([(text, prefix), (next(texts), count)])
                done += count
        else:
            count = max(8, min(8000, int(r.lognormvariate(math.log(mean), 0.8))))
            done += count
            shorts.append(([(instruction, 96)] if kind == "instr" else []) + [(next(texts), count)])
    order = r.choice(["first", "last", "last", "middle", "shuffled", "shuffled"])
    at = {"first": 0, "last": len(shorts), "middle": r.randint(0, len(shorts)) if order == "middle" else 0}.get(order, 0)
    requests = shorts[:at] + longs + shorts[at:]
    if order == "shuffled":
        r.shuffle(requests)
    return ranks, model, requests


def makespan(binary, trace, ranks, model, policy):
    command = [binary, "simulate", "--trace", str(trace), "--model", model, *MODELS[model], "--ranks", str(ranks)]
    run = subprocess.run([*command, "--policy", policy, "--json", "-"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)["makespan_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/zeroprefill")
    parser.add_argument("first", type=int, metavar="FROM")
    parser.add_argument("end", type=int, metavar="TO", help="more than FROM")
    options = parser.parse_args()
    binary, first, end = options.program, options.first, options.end
    if first >= end:
        parser.error(f"seeds go from {first} to {end} - 1: there are none")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "small.jsonl"
        for seed in range(first, end):
            ranks, model, requests = workload(seed)
            lines = ({"timestamp": 0, "input": "".join(token(t) * n for t, n in request)} for request in requests)
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            seconds = {policy: makespan(binary, trace, ranks, model, policy) for policy in POLICIES}
            ours = seconds.pop(OURS)
            best = min(seconds, key=seconds.get)
            ratios.append(ours / seconds[best])
            if ratios[-1] > 1.01:
                print(f"seed {seed}: {ranks} ranks, {model}, {len(requests)} requests:",
                      f"{ours:.2f} s, {best} {seconds[best]:.2f} s", flush=True)
    print(f"{len(ratios)} workloads: at worst {max(ratios):.4f} of the best other policy, mean",
          f"{sum(ratios) / len(ratios):.4f}, over 1.01 in {sum(ratio > 1.01 for ratio in ratios)}")


if __name__ == "__main__":
    main()
