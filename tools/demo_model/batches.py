"""Training rows as tensors on the device, and the random batches drawn from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from tasks import ANSWER, Task
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

TEXT_TOKENS = 128  # a plain text is cut after this many


@dataclass(frozen=True)
class Rows:
    """The rows of one task; every prompt is `prefix` and then its own tail."""

    prefix: Tensor  # [P]
    tails: Tensor  # [N, T], padded on the right
    lengths: Tensor  # [N], of the tails
    answers: Tensor  # [N], index of the right candidate
    candidates: Tensor  # [C], token ids
    closing: int  # tokens at the end of a tail that every row has: those of '\nAnswer:'
    by_answer: list[Tensor]  # row numbers, for each candidate

    def prompts(self, number: Tensor) -> tuple[Tensor, Tensor]:
        """Token ids and lengths of some rows' prompts."""
        ids = torch.cat((self.prefix.expand(len(number), -1), self.tails[number]), dim=1)
        return ids, len(self.prefix) + self.lengths[number]


@dataclass(frozen=True)
class Batch:
    """Prompts of several tasks, padded on the right to one width."""

    ids: Tensor  # [B, W]
    ends: Tensor  # [B], lengths
    own: Tensor  # [B, W], true on tokens of the row's own input
    real: Tensor  # [B, W], false on padding
    targets: Tensor  # [B], token id of the right answer


def read_jsonl(path: Path) -> list[dict]:
    """All objects of a JSON lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def pad(lists: list[list[int]], fill: int) -> Tensor:
    """Lists of ids as one matrix, padded on the right."""
    width = max(map(len, lists))
    return torch.tensor([ids + [fill] * (width - len(ids)) for ids in lists])


def encode_task(rows: list[dict], task: Task, tok: Tokenizer, fill: int, device: str) -> Rows:
    """Tokenize one task; the shared part must tokenize the same alone and in the prompt."""
    prefix = tok.encode(task.prefix).ids
    tails = []
    for row in rows:
        ids = tok.encode(task.render(row["columns"])).ids
        if ids[: len(prefix)] != prefix:
            raise SystemExit(f"{task.name}: the shared prefix tokenizes differently in a prompt")
        tails.append(ids[len(prefix) :])
    candidates = [tok.encode(text).ids for text in task.candidates]
    answers = torch.tensor([task.answer_index(row["label"]) for row in rows], device=device)
    return Rows(
        prefix=torch.tensor(prefix, device=device),
        tails=pad(tails, fill).to(device),
        lengths=torch.tensor([len(tail) for tail in tails], device=device),
        answers=answers,
        candidates=torch.tensor(candidates, device=device).flatten(),
        closing=len(tok.encode(ANSWER).ids),
        by_answer=[(answers == c).nonzero().flatten() for c in range(len(candidates))],
    )


def load_part(
    path: Path, tasks: dict[str, Task], tok: Tokenizer, fill: int, device: str
) -> dict[str, Rows]:
    """The rows of every task in one part, by task."""
    rows = read_jsonl(path)
    return {
        name: encode_task([row for row in rows if row["task"] == name], task, tok, fill, device)
        for name, task in tasks.items()
    }


def load_texts(path: Path, tok: Tokenizer, fill: int, device: str) -> tuple[Tensor, Tensor]:
    """Token ids and lengths of plain texts, each closed by the fill token."""
    lists = [tok.encode(row["text"]).ids[:TEXT_TOKENS] + [fill] for row in read_jsonl(path)]
    return pad(lists, fill).to(device), torch.tensor([len(ids) for ids in lists], device=device)


def pick(rows: Rows, count: int, even: bool) -> Tensor:
    """Random row numbers, of every answer alike where asked."""
    device = rows.tails.device
    if not even:
        return torch.randint(len(rows.tails), (count,), device=device)
    share = -(-count // len(rows.by_answer))
    parts = [
        numbers[torch.randint(len(numbers), (share,), device=device)] for numbers in rows.by_answer
    ]
    return torch.cat(parts)[:count]


def draw(data: dict[str, Rows], counts: dict[str, int], fill: int) -> Batch:
    """A random batch with so many rows of each task; Yes and No are drawn alike often."""
    ids, ends, starts, closings, targets = [], [], [], [], []
    for name, count in counts.items():
        rows = data[name]
        number = pick(rows, count, even=len(rows.candidates) == 2)
        part, end = rows.prompts(number)
        ids.append(part)
        ends.append(end)
        starts.append(torch.full_like(number, len(rows.prefix)))
        closings.append(torch.full_like(number, rows.closing))
        targets.append(rows.candidates[rows.answers[number]])
    width = max(part.shape[1] for part in ids)
    tokens = torch.cat([F.pad(part, (0, width - part.shape[1]), value=fill) for part in ids])
    end, start, closing = torch.cat(ends), torch.cat(starts), torch.cat(closings)
    place = torch.arange(width, device=tokens.device)
    return Batch(
        ids=tokens,
        ends=end,
        own=(place >= start[:, None]) & (place < (end - closing)[:, None]),
        real=place < end[:, None],
        targets=torch.cat(targets),
    )
