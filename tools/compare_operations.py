#!/usr/bin/env python3
"""Measures operations on a GPU beside the libraries that PyTorch calls for them, group by group in turns, so that both see
the same temperature: dense products (cuBLAS), products of experts (grouped_mm), causal attention (cuDNN), copies.

    tools/compare_operations.py --bench build-cuda/bench/cuda_bench --json OUT.jsonl [--groups moe,attention,dense,copy]
        [--library-path DIRS] [--commit HASH]

A peer's line is named "peer/" and the name of what cuda_bench measures. Both are the median of five samples of some tens
of milliseconds, after 0.3 s of the same, on normal values of deviation 0.5. A rate is FLOPs of the products over time; of
attention, the pairs that a causal mask leaves. Takes about two minutes on an H200.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import compare_with_transformers
import result_line

MODELS = {"30B": "Qwen3-30B-A3B", "235B": "Qwen3-235B-A22B"}
MOE = [(name, tokens) for name in MODELS for tokens in (4096, 16384, 65536)]
ATTENTION = [("30B", 32768, length) for length in (512, 2048, 4096, 8192, 32768)]
ATTENTION += [("30B", 131072, 131072)] + [("235B", 32768, length) for length in (512, 4096, 32768)]
DENSE = [(8192, 8192, 8192), (16384, 9216, 4096), (16384, 4096, 8192), (16384, 5120, 2048), (16384, 2048, 4096)]
COPY_BYTES = 4 << 30
WARM_UP_MS = 300  # as in bench/cuda/gpu_bench.h


def milliseconds(run):
    """Median of five samples, each of as many runs as fill some 20 ms, after as many as cuda_bench warms up with."""
    import torch

    def sample(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / runs

    run()
    runs = max(1, min(200, int(20 / max(sample(1), 1e-3))))
    warm = 0.0
    while warm < WARM_UP_MS:
        warm += sample(runs) * runs
    return statistics.median(sample(runs) for _ in range(5))


def noise(*shape):
    import torch

    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).mul_(0.5)


def sizes_of(name):
    shape = compare_with_transformers.SHAPES[MODELS[name]] | compare_with_transformers.COMMON
    return shape["hidden_size"], shape["moe_intermediate_size"], shape["num_experts"], shape["num_experts_per_tok"]


def moe_peers():
    import torch

    for name, tokens in MOE:
        hidden, intermediate, experts, chosen = sizes_of(name)
        picked = torch.rand(tokens, experts, device="cuda").topk(chosen).indices.flatten()
        ends = torch.bincount(picked, minlength=experts).cumsum(0).to(torch.int32)
        for part, n, k in (("gate+up", 2 * intermediate, hidden), ("down", hidden, intermediate)):
            x, w = noise(tokens * chosen, k), noise(experts, n, k).transpose(-2, -1)
            ms = milliseconds(lambda: torch._grouped_mm(x, w, ends))
            yield f"moe/{name} {tokens} tokens: {part}", ms, 2 * tokens * chosen * n * k * 1e-9, "TFLOP/s"
            del x, w


def attention_peers():
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    attend = torch.nn.functional.scaled_dot_product_attention
    for name, total, length in ATTENTION:
        heads = compare_with_transformers.SHAPES[MODELS[name]]["num_attention_heads"]
        kv_heads, dim = (compare_with_transformers.COMMON[key] for key in ("num_key_value_heads", "head_dim"))
        count = total // length
        q, k, v = (noise(count, length, h, dim).transpose(1, 2) for h in (heads, kv_heads, kv_heads))
        flops = 4 * count * (length * (length + 1) // 2) * heads * dim
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            ms = milliseconds(lambda: attend(q, k, v, is_causal=True, enable_gqa=True))
        yield f"attention/{name} {count}x{length}", ms, flops * 1e-9, "TFLOP/s"
        del q, k, v


def dense_peers():
    for tokens, n, k in DENSE:
        x, w = noise(tokens, k), noise(n, k)
        ms = milliseconds(lambda: x @ w.t())
        yield f"dense/{tokens}x{n}x{k} bf16", ms, 2 * tokens * n * k * 1e-9, "TFLOP/s"


def copy_peers():
    import torch

    host = torch.empty(COPY_BYTES, dtype=torch.uint8).pin_memory()
    device = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    ms = milliseconds(lambda: device.copy_(host, non_blocking=True))
    yield "copy/host to device 4 GiB", ms, COPY_BYTES * 1e-6, "GB/s"
    half = COPY_BYTES // 2
    ms = milliseconds(lambda: device[half:].copy_(device[:half]))
    yield "copy/device to device 2 GiB (read + write)", ms, COPY_BYTES * 1e-9, "TB/s"


PEERS = {"moe": moe_peers, "attention": attention_peers, "dense": dense_peers, "copy": copy_peers}


def run_peer(arguments):
    """The process that measures one group of peers: its memory is free again when ours begins."""
    import torch

    torch.manual_seed(arguments.seed)
    versions = f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
    for name, ms, work, unit in PEERS[arguments.peer]():
        line = {"bench": f"peer/{name}", "ms": ms, "rate": work / ms, "unit": unit, "strategy": versions}
        line = result_line.result_line(line, command="compare_operations.py " + " ".join(sys.argv[1:]),
                                       commit=arguments.commit, device=torch.cuda.get_device_name(),
                                       seed=arguments.seed, output=None)
        print(json.dumps(line), flush=True)


def measure(arguments, group):
    """Lines of the peers, then of this engine."""
    command = [sys.executable, __file__, "--peer", group, "--commit", arguments.commit, "--seed", str(arguments.seed)]
    peers = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    out = pathlib.Path(arguments.json + ".part")
    out.unlink(missing_ok=True)  # of a run that was ended
    environment = os.environ.copy()
    if arguments.library_path:
        environment["LD_LIBRARY_PATH"] = arguments.library_path
    command = [arguments.bench, "--only", group + "/", "--commit", arguments.commit, "--json", str(out)]
    ours = compare_with_transformers.run_side(command, env=environment, stdout=subprocess.DEVNULL)
    text = peers.stdout + (out.read_text(encoding="utf-8") if out.exists() else "")
    out.unlink(missing_ok=True)
    codes = (peers.returncode, ours.returncode if ours else None)
    if codes != (0, 0):
        print(f"{group}: exit codes {codes[0]} (peer) and {codes[1]}", file=sys.stderr)
    return compare_with_transformers.lines_of(text), codes == (0, 0)


def table(lines):
    """Engine against peer, a row an operation."""
    peers = {line["bench"].removeprefix("peer/"): line["rate"] for line in lines if line["bench"].startswith("peer/")}
    rows = [("what", "peer", "here", "unit", "ratio")]
    for line in lines:
        peer = peers.get(line["bench"])
        if not line["bench"].startswith("peer/"):
            rows.append((line["bench"], f"{peer:.1f}" if peer else "-", f"{line['rate']:.1f}", line["unit"],
                         f"{line['rate'] / peer:.2f}" if peer else "-"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def main():
    parser = argparse.ArgumentParser(description="Measures operations beside the libraries that PyTorch calls.")
    parser.add_argument("--bench", default="build-cuda/bench/cuda_bench")
    parser.add_argument("--library-path", default="", help="LD_LIBRARY_PATH of the bench alone")
    parser.add_argument("--groups", default="moe,attention,dense,copy", help="in this order")
    parser.add_argument("--json", default="operations.jsonl", help="append a JSON line an operation to this file")
    result_line.add_commit_option(parser)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.commit = result_line.commit_of(arguments)
    if arguments.peer:
        return run_peer(arguments)
    groups = arguments.groups.split(",")
    if unknown := set(groups) - PEERS.keys():
        sys.exit(f"--groups has {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    compare_with_transformers.require_bench(arguments.bench)
    lines, all_ran = [], True
    with open(arguments.json, "a", encoding="utf-8") as out:
        for group in groups:
            found, ran = measure(arguments, group)
            out.writelines(json.dumps(line) + "\n" for line in found)
            out.flush()
            lines += found
            all_ran = all_ran and ran
    print(table(lines))
    return 0 if all_ran else 1


if __name__ == "__main__":
    sys.exit(main())
