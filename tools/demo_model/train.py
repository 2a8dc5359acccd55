"""Train the demo model and save it in the layout of a Hugging Face Qwen3-MoE checkpoint.

Usage: python train.py DATA_FOLDER TASK_FOLDER TOKENIZER_FOLDER OUT_FOLDER [options]

DATA_FOLDER is what prepare.py wrote. Only train.jsonl and lm.jsonl are learned from; the
checkpoint kept is the one whose mean accuracy over the tasks is best on val.jsonl. The test
part is never read here.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import time
from pathlib import Path

import torch
from batches import Batch, Rows, draw, load_part, load_texts
from model import DemoMoe, Shape, qwen_tensors
from safetensors.torch import save_file
from tasks import load_tasks
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

SHORT = {"intent": 32, "domain": 64, "verify": 112, "moderation": 48}  # rows a step
LONG = {"banking": 64}  # apart, or its long prompts would pad all others
TEXTS = 128
SHORT_WEIGHT, LONG_WEIGHT = 0.75, 0.25
WARM_UP = 150
AVERAGE = 0.998  # decay of the moving average of the weights, which is what is saved
END_OF_TEXT = "<|endoftext|>"


def answer_loss(
    model: DemoMoe, batch: Batch, fill: int, args: argparse.Namespace
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of a batch of prompts, and for the log its answer and balancing parts."""
    lost = batch.own & (torch.rand(batch.ids.shape, device=batch.ids.device) < args.word_dropout)
    hidden, balance = model(batch.ids.masked_fill(lost, fill), batch.real)
    last = hidden[torch.arange(len(batch.ends)), batch.ends - 1]
    scores = model.logits(last).float()
    answer = F.cross_entropy(scores, batch.targets, label_smoothing=args.smoothing)
    known = batch.own[:, 1:] & batch.own[:, :-1]
    text = F.cross_entropy(model.logits(hidden[:, :-1][known]).float(), batch.ids[:, 1:][known])
    loss = answer + args.input_weight * text + args.balance * balance
    return loss, answer.detach(), balance.detach()


def text_loss(model: DemoMoe, texts: Tensor, lengths: Tensor, args: argparse.Namespace) -> Tensor:
    """Next-token loss on plain training texts."""
    number = torch.randint(len(texts), (TEXTS,), device=texts.device)
    tokens = texts[number][:, : int(lengths[number].max())]
    real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[number][:, None]
    hidden, balance = model(tokens, real)
    scores = model.logits(hidden[:, :-1][real[:, 1:]]).float()
    loss = F.cross_entropy(scores, tokens[:, 1:][real[:, 1:]])
    return args.text_weight * loss + args.balance * balance


@torch.no_grad()
def accuracies(model: DemoMoe, data: dict[str, Rows], device: str) -> dict[str, float]:
    """Share of rows whose best candidate is right, by task."""
    result = {}
    for name, rows in data.items():
        right = 0
        for number in torch.arange(len(rows.tails), device=rows.tails.device).split(256):
            ids, ends = rows.prompts(number)
            real = torch.arange(ids.shape[1], device=ids.device) < ends[:, None]
            with precision(device):
                hidden, _ = model(ids, real)
                scores = model.logits(hidden[torch.arange(len(ends)), ends - 1])
            best = scores[:, rows.candidates].argmax(-1)
            right += int((best == rows.answers[number]).sum())
        result[name] = right / len(rows.tails)
    return result


def precision(device: str) -> torch.autocast:
    """bf16 matrix products on a GPU, fp32 on a CPU."""
    return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")


class Average:
    """A moving average of the model's weights."""

    def __init__(self, model: DemoMoe) -> None:
        self.model = model
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        share = 1 - min(AVERAGE, (step + 1) / (step + 10))
        torch._foreach_lerp_(list(self.weights.values()), list(self.model.parameters()), share)

    def validate(self, data: dict[str, Rows], device: str) -> dict[str, float]:
        """Accuracies of the averaged weights, rounded to bf16 as they will be saved."""
        kept = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        rounded = {name: w.to(torch.bfloat16).float() for name, w in self.weights.items()}
        self.model.load_state_dict(rounded)
        self.model.eval()
        scores = accuracies(self.model, data, device)
        self.model.load_state_dict(kept)
        self.model.train()
        return scores


def save(out: Path, state: dict[str, Tensor], shape: Shape, tokenizer: Path, report: dict) -> None:
    """Write a checkpoint folder: weights, configuration, tokenizer, and how it was made."""
    out.mkdir(parents=True, exist_ok=True)
    save_file(dict(qwen_tensors(state)), out / "model.safetensors", metadata={"format": "pt"})
    end_of_text = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).token_to_id(END_OF_TEXT)
    config = json.dumps(shape.config(end_of_text), indent=2) + "\n"
    (out / "config.json").write_text(config, encoding="utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / name, out / name)
    (out / "training.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def optimizer_of(model: DemoMoe, args: argparse.Namespace, device: str) -> torch.optim.Optimizer:
    """AdamW that decays the matrices only."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": args.decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.98), fused=device == "cuda")


def learning_rate(peak: float, step: int, progress: float) -> float:
    """Linear warm-up, then a cosine down to 2 % of the peak."""
    cosine = 0.02 + 0.49 * (1 + math.cos(math.pi * min(1, progress)))
    return peak * min(1, (step + 1) / WARM_UP) * cosine


def options() -> argparse.Namespace:
    """Command-line options; the defaults are those of the shipped checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("data", "tasks", "tokenizer", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--steps", type=int, default=2077)
    parser.add_argument("--max-seconds", type=float, default=math.inf, help="shortens the schedule")
    parser.add_argument("--every", type=int, default=200, help="steps between validations")
    parser.add_argument("--batch-share", type=float, default=1.0, help="for trials on a CPU")
    parser.add_argument("--lr", type=float, default=2.5e-3)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.15)
    parser.add_argument("--word-dropout", type=float, default=0.1)
    parser.add_argument("--smoothing", type=float, default=0.05)
    parser.add_argument("--input-weight", type=float, default=0.1)
    parser.add_argument("--text-weight", type=float, default=1.0)
    parser.add_argument("--balance", type=float, default=0.02)
    parser.add_argument("--experts", type=int, default=Shape.experts)
    parser.add_argument("--top-k", type=int, default=Shape.top_k)
    parser.add_argument("--expert-dim", type=int, default=Shape.expert_dim)
    parser.add_argument("--layers", type=int, default=Shape.layers)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def settings_of(args: argparse.Namespace) -> dict:
    """The options worth keeping beside the checkpoint: no folders, no infinities."""
    return {k: v for k, v in vars(args).items() if not isinstance(v, Path) and v != math.inf}


def main() -> None:
    args = options()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    tok = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    fill = tok.token_to_id(END_OF_TEXT)
    tasks = load_tasks(args.tasks)
    train = load_part(args.data / "train.jsonl", tasks, tok, fill, device)
    val = load_part(args.data / "val.jsonl", tasks, tok, fill, device)
    texts, lengths = load_texts(args.data / "lm.jsonl", tok, fill, device)
    shape = Shape(
        vocab=tok.get_vocab_size(),
        experts=args.experts,
        top_k=args.top_k,
        expert_dim=args.expert_dim,
        layers=args.layers,
    )
    model = DemoMoe(shape, args.dropout).to(device)
    average = Average(model)
    optimizer = optimizer_of(model, args, device)
    short, long = (
        {name: max(2, int(count * args.batch_share)) for name, count in counts.items()}
        for counts in (SHORT, LONG)
    )
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters on {device}")

    log: list[dict] = []
    best, began, progress, step = -1.0, time.time(), 0.0, 0
    while progress < 1:
        progress = max((step + 1) / args.steps, (time.time() - began) / args.max_seconds)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(args.lr, step, progress)
        # Backward after each part, so that only one part's activations are held at a time.
        with precision(device):
            loss, answer, balance = answer_loss(model, draw(train, short, fill), fill, args)
        (SHORT_WEIGHT * loss).backward()
        with precision(device):
            loss, _, _ = answer_loss(model, draw(train, long, fill), fill, args)
        (LONG_WEIGHT * loss).backward()
        with precision(device):
            text = text_loss(model, texts, lengths, args)
        text.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        average.update(step)
        if step % args.every and progress < 1:
            continue
        scores = average.validate(val, device)
        entry = {
            "step": step,
            "seconds": round(time.time() - began, 1),
            "answer": round(answer.item(), 4),
            "text": round(text.item(), 4),
            "balance": round(balance.item(), 4),
            "mean": sum(scores.values()) / len(scores),
            "val": scores,
        }
        log.append(entry)
        print(json.dumps(entry), flush=True)
        if entry["mean"] > best:
            best = entry["mean"]
            report = {"settings": settings_of(args), "best": entry, "log": log}
            save(args.out, average.weights, shape, args.tokenizer, report)
    seconds = time.time() - began
    print(f"best mean validation accuracy {best:.4f}, {step} steps, {seconds:.0f} s")


if __name__ == "__main__":
    main()
