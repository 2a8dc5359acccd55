#!/usr/bin/env python3
"""Measures prefill of random models with compiled Hugging Face transformers and with this engine, one after the other on
the same GPU, and prints both beside each other.

    tools/compare_with_transformers.py --bench build-cuda/bench/model_bench --json OUT.jsonl
        [--models Qwen3-30B-A3B:48,Qwen3-235B-A22B:22] [--shapes 32x512,8x4096,1x32768,1x131072]
        [--skip-peer Qwen3-30B-A3B:1x131072,...] [--only peer|engine] [--cell-seconds 60] [--commit HASH]

The peer: the Qwen3-MoE model of transformers in bf16, each decoder layer through torch.compile, experts by grouped
products, attention by cuDNN where it takes the sizes; logits of the last position of each sequence, no cache kept. Its
weights are random too, so it routes as its random router says; ours draws experts evenly. Both count the same FLOPs: all
products of the layers, of attention the pairs that a causal mask leaves, no head.

Either side computes a shape for --warm-up-seconds before it is timed: a chip that stood idle while something was compiled
is cool, and faster. All four shapes of both models take about nine minutes on an H200; each side of a cell gets
--cell-seconds at most, but three steps at least.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import result_line

PEAK_FLOPS = 989e12  # dense bf16, H100 and H200 data sheets
LONG_STEP_SECONDS = 8
GOALS = {512: 1.2, 4096: 1.2, 32768: 1.1, 131072: 1.0}
# The numbers of the published config.json files, as in src/zp/shape/known_models.cpp.
SHAPES = {
    "Qwen3-30B-A3B": {"hidden_size": 2048, "num_attention_heads": 32, "moe_intermediate_size": 768},
    "Qwen3-235B-A22B": {"hidden_size": 4096, "num_attention_heads": 64, "moe_intermediate_size": 1536},
}
COMMON = {
    "vocab_size": 151936,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "rope_theta": 1e6,
    "max_position_embeddings": 262144,
}


def parse_shape(text):
    requests, tokens = text.split("x")
    return int(requests), int(tokens)


def flops_of(model, layers, requests, tokens):
    """All products of the layers, as src/zp/shape/flops.h counts them."""
    shape = SHAPES[model] | COMMON
    hidden, query = shape["hidden_size"], shape["num_attention_heads"] * shape["head_dim"]
    kv = shape["num_key_value_heads"] * shape["head_dim"]
    weights = hidden * (query + 2 * kv) + query * hidden + hidden * shape["num_experts"]
    weights += shape["num_experts_per_tok"] * 3 * hidden * shape["moe_intermediate_size"]
    pairs = tokens * (tokens + 1) // 2
    return layers * requests * (2 * tokens * weights + 4 * query * pairs)


class Peer:
    """A compiled model of transformers on the current GPU."""

    def __init__(self, model, layers, seed):
        import torch
        import torch._dynamo
        from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

        self.torch = torch
        self.logits = None  # of the last step
        torch.manual_seed(seed)
        torch._dynamo.config.cache_size_limit = 64
        config = Qwen3MoeConfig(num_hidden_layers=layers, **SHAPES[model], **COMMON)
        config._attn_implementation = "sdpa"
        config._experts_implementation = "grouped_mm"
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            self.model = Qwen3MoeForCausalLM(config).eval()
        with torch.no_grad():
            for parameter in self.model.parameters():
                if parameter.dim() == 1:
                    parameter.fill_(1)  # norms
                else:
                    parameter.normal_(std=0.02)
        for layer in self.model.model.layers:
            layer.compile()

    def step(self, ids):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        with self.torch.inference_mode(), sdpa_kernel(backends):
            self.logits = self.model(ids, use_cache=False, logits_to_keep=1).logits.float().cpu()
        return time.perf_counter() - begin

    def measure(self, requests, tokens, cell_seconds, warm_up_seconds):
        ids = self.torch.randint(0, COMMON["vocab_size"], (requests, tokens), device="cuda")
        self.step(ids)  # compiles
        warm = self.step(ids)  # may still compile something; of a long step it counts
        if warm >= LONG_STEP_SECONDS:
            return [warm] + [self.step(ids) for _ in range(2)]
        for _ in range(int(warm_up_seconds / warm)):
            self.step(ids)
        count = max(3, min(5, int(cell_seconds / warm) - 1))
        return [self.step(ids) for _ in range(count)]


def run_peer(arguments):
    """The subprocess that measures the peer: a JSON line a shape on standard output."""
    import torch
    import transformers

    model, layers = arguments.peer.split(":")
    peer = Peer(model, int(layers), arguments.seed)
    for text in arguments.shapes.split(","):
        requests, tokens = parse_shape(text)
        try:
            samples = peer.measure(requests, tokens, arguments.cell_seconds, arguments.warm_up_seconds)
        except Exception as error:  # too little memory, say: the other shapes go on
            print(f"{model} {text}: {str(error)[:300]}", file=sys.stderr, flush=True)
            continue
        seconds = statistics.median(samples)
        line = {
            "bench": "model_peer",
            "model": f"random:{model}",
            "layers": int(layers),
            "dtype": "bf16",
            "gpus": 1,
            "strategy": f"transformers {transformers.__version__}, torch {torch.__version__}, compiled layers",
            "experts": "resident",
            "context": tokens,
            "requests": requests,
            "tokens": requests * tokens,
            "tokens_per_s_per_gpu": requests * tokens / seconds,
            "mfu": flops_of(model, int(layers), requests, tokens) / seconds / PEAK_FLOPS,
            "exposed_fraction": 0.0,
            "step_ms": seconds * 1e3,
            "step_ms_min": min(samples) * 1e3,
            "step_ms_max": max(samples) * 1e3,
            "steps": len(samples),
            "device_bytes_used": torch.cuda.max_memory_allocated(),
        }
        line = result_line.result_line(
            line,
            command="compare_with_transformers.py " + " ".join(sys.argv[1:]),
            commit=arguments.commit,
            device=torch.cuda.get_device_name(),
            seed=arguments.seed,
            output=peer.logits.numpy().tobytes(),
        )
        print(json.dumps(line), flush=True)


def lines_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def require_bench(path):
    if not os.access(path, os.X_OK):
        sys.exit(f"--bench: there is no program {path}; it is built with -DZP_BUILD_BENCH=ON")


def run_side(command, **options):
    """Whether it fails is seen by the cells that are missing; None if there is no such program."""
    try:
        return subprocess.run(command, check=False, **options)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return None


def measure_peer(arguments, model, layers, shapes):
    command = [sys.executable, __file__, "--peer", f"{model}:{layers}", "--shapes", ",".join(shapes)]
    command += ["--cell-seconds", str(arguments.cell_seconds), "--warm-up-seconds", str(arguments.warm_up_seconds)]
    command += ["--commit", arguments.commit, "--seed", str(arguments.seed)]
    done = run_side(command, stdout=subprocess.PIPE, text=True)
    return lines_of(done.stdout) if done else []


def measure_engine(arguments, model, layers, shapes):
    out = pathlib.Path(arguments.json + ".part")
    out.unlink(missing_ok=True)  # of a run that was ended
    command = [arguments.bench, "--model", f"random:{model}", "--layers", str(layers), "--device", "cuda"]
    command += ["--shapes", ",".join(shapes), "--cell-seconds", str(arguments.cell_seconds), "--json", str(out)]
    command += ["--warm-up-seconds", str(arguments.warm_up_seconds)]
    command += ["--chunk-tokens", str(arguments.chunk_tokens), "--commit", arguments.commit, "--random-seed", str(arguments.seed)] + (["--stages"] if arguments.stages else [])
    environment = os.environ.copy()
    if arguments.library_path:
        environment["LD_LIBRARY_PATH"] = arguments.library_path
    run_side(command, env=environment, stdout=sys.stderr)
    if not out.exists():
        return []
    text = out.read_text(encoding="utf-8")
    out.unlink()
    return lines_of(text)


def missing_cells(side, model, shapes, found):
    """Of `shapes`, those that no line is of, in words."""
    there = {f"{line['requests']}x{line['context']}" for line in found}
    return [f"{model} {shape} by {side}" for shape in shapes if shape not in there]


def table(lines):
    """Engine against peer, a row a cell."""
    cells = {}
    for line in lines:
        key = (line["model"].removeprefix("random:"), line["layers"], f"{line['requests']}x{line['context']}")
        cells.setdefault(key, {})["peer" if line["bench"] == "model_peer" else "engine"] = line
    rows = [("model", "layers", "shape", "peer tok/s", "MFU", "engine tok/s", "MFU", "ratio", "goal")]
    for (model, layers, shape), cell in cells.items():
        figures = []
        for side in ("peer", "engine"):
            line = cell.get(side)
            figures += [f"{line['tokens_per_s_per_gpu']:,.0f}", f"{line['mfu']:.1%}"] if line else ["-", "-"]
        both = "peer" in cell and "engine" in cell
        ratio = cell["engine"]["tokens_per_s_per_gpu"] / cell["peer"]["tokens_per_s_per_gpu"] if both else None
        goal = GOALS.get(parse_shape(shape)[1])
        rows.append((model, str(layers), shape, *figures, f"{ratio:.2f}" if both else "-", f"{goal}" if goal else "-"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(row, widths)) for row in rows)


def main():
    parser = argparse.ArgumentParser(description="Measures transformers and this engine on one GPU.")
    parser.add_argument("--bench", default="build-cuda/bench/model_bench")
    parser.add_argument("--library-path", default="", help="LD_LIBRARY_PATH of the bench alone")
    parser.add_argument("--json", default="model.jsonl", help="append a JSON line a cell and side to this file")
    parser.add_argument("--models", default="Qwen3-30B-A3B:48,Qwen3-235B-A22B:22", help="names with their layers")
    parser.add_argument("--shapes", default="32x512,8x4096,1x32768,1x131072")
    parser.add_argument("--skip-peer", default="", help="cells not to measure with transformers: MODEL:SHAPE,...")
    parser.add_argument("--only", choices=["both", "peer", "engine"], default="both")
    parser.add_argument("--cell-seconds", type=float, default=60)
    parser.add_argument("--warm-up-seconds", type=float, default=6, help="of either side of a cell, before its steps")
    parser.add_argument("--chunk-tokens", type=int, default=32768, help="of the engine")
    parser.add_argument("--stages", action="store_true", help="stage tables of the engine")
    result_line.add_commit_option(parser)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.commit = result_line.commit_of(arguments)
    if arguments.peer:
        return run_peer(arguments)
    if arguments.only != "peer":
        require_bench(arguments.bench)  # before the peer takes its minutes
    lines = []
    skipped = set(filter(None, arguments.skip_peer.split(",")))
    missing = []
    with open(arguments.json, "a", encoding="utf-8") as out:
        for model, layers in (entry.split(":") for entry in arguments.models.split(",")):
            shapes = arguments.shapes.split(",")
            peer_shapes = [shape for shape in shapes if f"{model}:{shape}" not in skipped]
            found = []
            if arguments.only != "engine" and peer_shapes:
                found += measure_peer(arguments, model, int(layers), peer_shapes)
                missing += missing_cells("transformers", model, peer_shapes, found)
            if arguments.only != "peer":
                ours = measure_engine(arguments, model, int(layers), shapes)
                missing += missing_cells("the engine", model, shapes, ours)
                found += ours
            for line in found:
                out.write(json.dumps(line) + "\n")
            out.flush()
            lines += found
    print(table(lines))
    if missing:
        print("not measured:", "; ".join(missing), file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
