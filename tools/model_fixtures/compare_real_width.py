#!/usr/bin/env python3
"""Compares the engine with transformers on a random checkpoint of a real model's width, cut to a few layers.

    python3 tools/model_fixtures/compare_real_width.py Qwen3-30B-A3B --layers 4 --folder DIR \
        --engine build-cuda/zeroprefill --device cuda

Writes the checkpoint (bf16, several files) with the shipped model's tokenizer to DIR, runs the prompts of
tests/data/demo_prompts.jsonl through transformers in float32 and in bfloat16 and through `zeroprefill run`, and prints, for
the log-probabilities of all candidates over the whole vocabulary, the relative norm of the difference to float32: over
all prompts, and the median and the largest of single prompts. Random routing makes close calls, which either may decide
the other way; such a prompt lies far beyond the median. So this fails if the engine's median is larger than that of
transformers in bfloat16, or if its difference over all prompts is more than twice theirs.
"""

import argparse
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

try:
    import torch
    from make_fixtures import randomise
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
except ImportError as error:
    sys.exit(f"{sys.argv[0]} needs torch and transformers: {error}")

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import result_line  # noqa: E402 (the line above finds it)

# From the models' config.json.
SHAPES = {
    "Qwen3-30B-A3B": dict(hidden_size=2048, num_attention_heads=32, num_key_value_heads=4, moe_intermediate_size=768),
    "Qwen3-235B-A22B": dict(hidden_size=4096, num_attention_heads=64, num_key_value_heads=4, moe_intermediate_size=1536),
    "tiny": dict(hidden_size=128, num_attention_heads=4, num_key_value_heads=2, moe_intermediate_size=64, num_experts=8),
}
COMMON = dict(vocab_size=151936, head_dim=128, intermediate_size=1024, num_experts=128, num_experts_per_tok=8,
              max_position_embeddings=4096, rope_theta=1e6, norm_topk_prob=True, tie_word_embeddings=False)


def make_checkpoint(options: argparse.Namespace) -> None:
    config = Qwen3MoeConfig(**{**COMMON, **SHAPES[options.shape], "num_hidden_layers": options.layers})
    torch.manual_seed(options.seed)
    with torch.device(options.torch_device):
        model = Qwen3MoeForCausalLM(config).to(torch.bfloat16)
    randomise(model, torch.Generator(options.torch_device).manual_seed(options.seed))
    model.save_pretrained(options.folder, max_shard_size="2GB")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "models" / "demo-moe" / name, options.folder / name)


# Not the model that was written: to(bfloat16) rounds its rotary frequencies too.
def load(options: argparse.Namespace, dtype: torch.dtype) -> Qwen3MoeForCausalLM:
    return Qwen3MoeForCausalLM.from_pretrained(options.folder, dtype=dtype).to(options.torch_device).eval()


@torch.no_grad()
def log_probabilities(model: Qwen3MoeForCausalLM, prompts: list[dict]) -> list[torch.Tensor]:
    found = []
    for prompt in prompts:
        ids = torch.tensor([prompt["prompt_ids"]], device=model.device)
        logits = model(ids, logits_to_keep=1).logits[0, -1].double()
        found.append(torch.log_softmax(logits, -1)[prompt["label_ids"]].cpu())
    return found


def engine_log_probabilities(options: argparse.Namespace, prompts: list[dict]) -> list[torch.Tensor]:
    answers: dict[tuple[str, str], torch.Tensor] = {}
    out = options.folder.with_name(options.folder.name + "_answers.jsonl")
    for task in sorted({prompt["task"] for prompt in prompts}):
        rows = next((ROOT / "examples" / "rows").glob(f"{task}.*"))
        subprocess.run([options.engine, "run", "--model", options.folder, "--task",
                        ROOT / "examples" / "tasks" / f"{task}.yaml", "--input", rows, "--output", out, "--device",
                        options.device, "--dtype", options.dtype, *options.engine_option], check=True)
        for line in out.read_text().splitlines():
            answer = json.loads(line)
            if "error" in answer:
                sys.exit(f"{task} {answer['id']}: {answer['error']}")
            values = torch.tensor(list(answer["vocab_logprobs"].values()), dtype=torch.double)
            answers[task, answer["id"]] = values
    return [answers[prompt["task"], prompt["id"]] for prompt in prompts]


def difference(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    a, b = torch.cat(found), torch.cat(expected)
    return float((a - b).norm() / (b - b.mean()).norm())


def by_prompt(found: list[torch.Tensor], expected: list[torch.Tensor]) -> dict[str, float]:
    """The same of each prompt, against what its candidates differ by in the middle of all prompts."""
    spread = torch.stack([b.std(correction=0) for b in expected]).median()
    each = torch.stack([(a - b).square().mean().sqrt() for a, b in zip(found, expected, strict=True)]) / spread
    median = float(each.median())
    return {"median": median, "max": float(each.max()), "beyond_5_medians": int((each > 5 * median).sum())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--device", default="cuda", help="the engine's")
    parser.add_argument("--dtype", default="bf16", help="the engine's")
    parser.add_argument("--torch-device", default="cuda")
    parser.add_argument("--engine-option", action="append", default=[], help="handed on, such as --experts=host")
    parser.add_argument("--seed", type=int, default=20261129)
    parser.add_argument("--json", type=Path, help="append the line that is printed to this file too")
    result_line.add_commit_option(parser)
    options = parser.parse_args()
    commit = result_line.commit_of(options)
    options.folder.mkdir(parents=True, exist_ok=True)
    prompts = [json.loads(line) for line in (ROOT / "tests/data/demo_prompts.jsonl").read_text().splitlines()]
    make_checkpoint(options)
    bf16 = log_probabilities(load(options, torch.bfloat16), prompts)
    expected = log_probabilities(load(options, torch.float32), prompts)
    if options.torch_device == "cuda":
        torch.cuda.empty_cache()
    engine = engine_log_probabilities(options, prompts)
    ours, theirs = difference(engine, expected), difference(bf16, expected)
    ours_by_prompt, theirs_by_prompt = by_prompt(engine, expected), by_prompt(bf16, expected)
    device = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    values = [float(value) for answer in engine for value in answer]
    line = result_line.result_line(
        {"bench": "real_width", "model": options.shape, "layers": options.layers, "dtype": options.dtype, "gpus": 1,
         "prompts": len(prompts),
         "engine_difference": ours, "transformers_bf16_difference": theirs,
         "engine_by_prompt": ours_by_prompt, "transformers_bf16_by_prompt": theirs_by_prompt},
        command=" ".join([Path(sys.argv[0]).name, *sys.argv[1:]]), commit=commit, device=device, seed=options.seed,
        output=struct.pack(f"<{len(values)}d", *values))
    print(json.dumps(line))
    if options.json:
        with options.json.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    sys.exit(0 if ours <= 2 * theirs + 1e-6 and ours_by_prompt["median"] <= theirs_by_prompt["median"] + 1e-6 else 1)


if __name__ == "__main__":
    main()
