#!/usr/bin/env python3
"""Remakes tests/data/models: tiny random Qwen3-MoE checkpoints with logits computed by transformers in float32.

    python3 -m pip install torch transformers safetensors
    python3 tools/model_fixtures/make_fixtures.py tests/data/models

Each folder holds a checkpoint as save_pretrained writes it and expected.json: token sequences with the logits of every
vocabulary entry at the last position. Weights are drawn wider than at initialisation, with outliers, so that
attention, routing and the head all matter.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

SEED = 20261129
COMMON = dict(
    vocab_size=131,
    hidden_size=40,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    intermediate_size=56,
    moe_intermediate_size=24,
    num_experts=7,
    num_experts_per_tok=3,
    max_position_embeddings=512,
    rope_theta=10000.0,
    norm_topk_prob=True,
    tie_word_embeddings=False,
)
CASES = {
    "moe_f32": (dict(), "float32", None),
    "mixed_layers_bf16": (
        dict(num_hidden_layers=5, decoder_sparse_step=2, mlp_only_layers=[3], norm_topk_prob=False), "bfloat16", None),
    "tied_sharded_f16": (
        dict(tie_word_embeddings=True, num_key_value_heads=1, head_dim=8, rope_theta=1e6), "float16", "100KB"),
    "aligned_bf16": (
        dict(hidden_size=64, head_dim=32, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2), "bfloat16",
        None),
}
LENGTHS = (1, 2, 15, 16, 17, 33, 70, 131)


def randomise(model: torch.nn.Module, generator: torch.Generator) -> None:
    """Matrices of gain 1.5 with one outlier in 500; norm weights around 1."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() < 2:
                parameter.copy_(1 + 0.2 * torch.randn(parameter.shape, generator=generator, device=parameter.device))
                continue
            gain = 1.0 if "embed" in name else 1.5 / parameter.shape[-1] ** 0.5
            values = gain * torch.randn(parameter.shape, generator=generator, device=parameter.device)
            outlier = torch.rand(parameter.shape, generator=generator, device=parameter.device) < 0.002
            parameter.copy_(torch.where(outlier, values * 6, values))


def make_case(folder: Path, options: dict, dtype: str, shard: str | None) -> None:
    config = Qwen3MoeConfig(**{**COMMON, **options})
    generator = torch.Generator().manual_seed(SEED)
    model = Qwen3MoeForCausalLM(config)
    randomise(model, generator)
    model = model.to(getattr(torch, dtype))
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size=shard or "5GB")
    (folder / "generation_config.json").unlink(missing_ok=True)

    # Loaded anew: model.to(bfloat16) rounds the rotary frequencies too, which no checkpoint does.
    reference = Qwen3MoeForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    sequences = []
    with torch.no_grad():
        for length in LENGTHS:
            ids = torch.randint(0, config.vocab_size, (length,), generator=generator)
            logits = reference(ids[None]).logits[0, -1]
            sequences.append({"ids": ids.tolist(), "logits": [float(f"{x:.9g}") for x in logits.tolist()]})
    (folder / "expected.json").write_text(json.dumps({"sequences": sequences}) + "\n")


def main() -> None:
    target = Path(sys.argv[1])
    for name, (options, dtype, shard) in CASES.items():
        make_case(target / name, options, dtype, shard)
        files = sorted(p.name for p in (target / name).iterdir())
        print(name, files, sum(p.stat().st_size for p in (target / name).iterdir()))


if __name__ == "__main__":
    main()
