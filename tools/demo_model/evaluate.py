"""Score a checkpoint on the rows of every task, with transformers' own Qwen3-MoE in bf16.

Usage: python evaluate.py MODEL_FOLDER TASK_FOLDER ROWS [--json OUT.json]

ROWS is test.jsonl or val.jsonl of prepare.py, or the folder of example rows. Prints
accuracy with its Wilson 95 % interval beside the share of the largest class, as a Markdown
table.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path

import torch
from example_rows import read_rows
from tasks import Task, load_tasks
from tokenizers import Tokenizer
from transformers import Qwen3MoeForCausalLM


def wilson(right: int, count: int, z: float = 1.959964) -> tuple[float, float]:
    """The Wilson score interval of a proportion."""
    share = right / count
    centre = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return (centre - spread) / scale, (centre + spread) / scale


def load_model(folder: Path, dtype: torch.dtype, device: str) -> Qwen3MoeForCausalLM:
    """The checkpoint in transformers; every tensor must find its place."""
    model, info = Qwen3MoeForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    wrong = {key: names for key, names in info.items() if names}
    if wrong:
        raise SystemExit(f"the checkpoint does not fit: {wrong}")
    return model.to(device).eval()


@torch.no_grad()
def candidate_logits(
    model: Qwen3MoeForCausalLM, prompts: list[list[int]], candidates: list[int]
) -> torch.Tensor:
    """The logits of the candidates after each prompt, one batch, padded on the right."""
    width = max(map(len, prompts))
    ids = torch.tensor([prompt + [0] * (width - len(prompt)) for prompt in prompts])
    mask = torch.tensor([[1] * len(prompt) + [0] * (width - len(prompt)) for prompt in prompts])
    hidden = model.model(
        ids.to(model.device), attention_mask=mask.to(model.device)
    ).last_hidden_state
    last = hidden[torch.arange(len(prompts)), torch.tensor([len(p) - 1 for p in prompts])]
    return model.lm_head(last)[:, candidates].float().cpu()


def candidate_ids(task: Task, tokenizer: Tokenizer) -> list[int]:
    """One token id for each answer of a task."""
    return [id_ for text in task.candidates for id_ in tokenizer.encode(text).ids]


def score(
    model: Qwen3MoeForCausalLM, tokenizer: Tokenizer, task: Task, rows: list[dict], batch: int
) -> dict:
    """Accuracy and its interval over the rows of one task."""
    candidates = candidate_ids(task, tokenizer)
    prompts = [tokenizer.encode(task.render(entry["columns"])).ids for entry in rows]
    order = sorted(range(len(rows)), key=lambda number: len(prompts[number]))
    right = 0
    for start in range(0, len(order), batch):
        numbers = order[start : start + batch]
        best = candidate_logits(model, [prompts[n] for n in numbers], candidates).argmax(-1)
        gold = torch.tensor([task.answer_index(rows[n]["label"]) for n in numbers])
        right += int((best == gold).sum())
    low, high = wilson(right, len(rows))
    largest = Counter(entry["label"] for entry in rows).most_common(1)[0]
    return {
        "rows": len(rows),
        "candidates": len(candidates),
        "right": right,
        "accuracy": right / len(rows),
        "low": low,
        "high": high,
        "largest_class": largest[0],
        "majority": largest[1] / len(rows),
    }


def load_rows(path: Path) -> list[dict]:
    """Rows as prepare.py writes them, also from a folder of example files named by task."""
    if path.is_file():
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        {"task": file.stem, "columns": row, "label": row["label"]}
        for file in sorted(path.iterdir())
        for row in read_rows(file)
    ]


def table(results: dict[str, dict]) -> str:
    """The results as a Markdown table, in percent."""
    lines = ["| task | rows | candidates | majority class | accuracy | 95 % interval |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | --- |")
    for name, r in results.items():
        shares = [f"{100 * r[key]:.1f}" for key in ("majority", "accuracy", "low", "high")]
        lines.append(
            f"| {name} | {r['rows']} | {r['candidates']} | {shares[0]} % | {shares[1]} % "
            f"| {shares[2]} to {shares[3]} % |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(args.model, getattr(torch, args.dtype), device)
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    tasks = load_tasks(args.tasks)
    rows = load_rows(args.rows)
    results = {}
    for name in dict.fromkeys(entry["task"] for entry in rows):
        task = tasks[name.partition("-")[0]]  # 'moderation-natural' is asked as 'moderation'
        chosen = [entry for entry in rows if entry["task"] == name]
        results[name] = score(model, tokenizer, task, chosen, args.batch)
    print(table(results))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
