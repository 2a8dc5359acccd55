"""Write the fixture that the engine's tests compare with: prompts, token ids and logits.

Usage: python make_fixture.py MODEL_FOLDER TASK_FOLDER EXAMPLE_ROWS_FOLDER OUT.jsonl

For the first rows of every example file: the prompt, its ids by the tokenizers library and
the candidates' logits by transformers on the CPU, with the bf16 weights widened to fp32.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from evaluate import candidate_ids, candidate_logits, load_model
from example_rows import read_rows
from tasks import Task, load_tasks
from tokenizers import Tokenizer
from transformers import Qwen3MoeForCausalLM

ROWS_PER_TASK = 4


def candidate_values(task: Task) -> list[str]:
    """What each candidate means, as the label column writes it."""
    return ["true", "false"] if task.form == "predicate" else [value for value, _ in task.choices]


def entry(
    model: Qwen3MoeForCausalLM, tokenizer: Tokenizer, task: Task, row: dict[str, str]
) -> dict:
    """One line of the fixture."""
    prompt = task.render(row)
    ids = tokenizer.encode(prompt).ids
    labels = candidate_ids(task, tokenizer)
    logits = candidate_logits(model, [ids], labels)[0]
    return {
        "task": task.name,
        "id": row[task.id_column],
        "prompt": prompt,
        "label_ids": labels,
        "prompt_ids": ids,
        "logits": [float(f"{value:.6g}") for value in logits.tolist()],
        "answer": candidate_values(task)[int(logits.argmax())],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("model", "tasks", "rows", "out"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args()
    model = load_model(args.model, torch.float32, "cpu")
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    tasks = load_tasks(args.tasks)
    entries = []
    for path in sorted(args.rows.iterdir()):
        rows = read_rows(path)[:ROWS_PER_TASK]
        entries += [entry(model, tokenizer, tasks[path.stem], row) for row in rows]
    lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in entries]
    args.out.write_text("".join(lines), encoding="utf-8")
    print(f"{len(entries)} prompts")


if __name__ == "__main__":
    main()
