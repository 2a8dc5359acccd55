"""Train the demo model's byte-level BPE vocabulary in the shape of Qwen's tokenizer.json.

Usage: python train_tokenizer.py DATA_FOLDER TASK_FOLDER OUT_FOLDER [--size 4096]

DATA_FOLDER is what prepare.py wrote; only training texts are read. Every answer label of
every task becomes a single token, and the special tokens follow the BPE entries as in Qwen.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from tasks import ANSWER, load_tasks, option_letters
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LABEL_REPEATS = 5000
PROMPT_REPEATS = 20


def corpus(data: Path, task_folder: Path) -> Iterator[str]:
    """Training texts once, shared prompt parts several times, labels often enough to merge."""
    seen = set()
    for line in (data / "train.jsonl").read_text(encoding="utf-8").splitlines():
        for text in json.loads(line)["columns"].values():
            if text not in seen:
                seen.add(text)
                yield f"Message: {text}"
    for line in (data / "lm.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)["text"]
    for task in load_tasks(task_folder).values():
        yield from [task.prefix + task.input + ANSWER] * PROMPT_REPEATS
    for label in required_labels():
        yield from [f"Answer:{label}"] * LABEL_REPEATS


def required_labels() -> list[str]:
    """Labels that must be one token: Yes, No and those of up to 128 options."""
    return [" Yes", " No", *(f" {letters}" for letters in option_letters(128))]


def build(texts: Iterator[str], size: int) -> Tokenizer:
    """A trained tokenizer with `size` entries, special tokens included."""
    tokenizer = Tokenizer(models.BPE(fuse_unk=False, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.ByteLevel(
        add_prefix_space=False, trim_offsets=False, use_regex=False
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(SPECIAL),
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in SPECIAL]
    )
    return tokenizer


def check(tokenizer: Tokenizer, size: int) -> None:
    """The promises that training and the engine rely on."""
    if tokenizer.get_vocab_size() != size:
        raise SystemExit(f"{tokenizer.get_vocab_size()} entries instead of {size}")
    context = tokenizer.encode("Message: hi" + ANSWER).ids
    for label in required_labels():
        ids = tokenizer.encode("Message: hi" + ANSWER + label).ids
        if ids[:-1] != context:
            raise SystemExit(f"label {label!r} is not one token")


def as_qwen(tokenizer: Tokenizer) -> str:
    """tokenizer.json with the settings that the library writes otherwise than Qwen's file."""
    raw = json.loads(tokenizer.to_str())
    raw["decoder"].update(add_prefix_space=False, trim_offsets=False, use_regex=False)
    raw["model"].update(continuing_subword_prefix="", end_of_word_suffix="")
    return json.dumps(raw, indent=2, ensure_ascii=False) + "\n"


def config(tokenizer: Tokenizer) -> dict:
    """tokenizer_config.json as Hugging Face writes it for Qwen, without a chat template."""
    added = {
        str(tokenizer.token_to_id(token)): {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
        for token in SPECIAL
    }
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "additional_special_tokens": SPECIAL[1:],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": SPECIAL[0],
        "errors": "replace",
        "model_max_length": 2048,
        "pad_token": SPECIAL[0],
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=int, default=4096)
    args = parser.parse_args()
    tokenizer = build(corpus(args.data, args.tasks), args.size)
    check(tokenizer, args.size)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "tokenizer.json").write_text(as_qwen(tokenizer), encoding="utf-8")
    text = json.dumps(config(tokenizer), indent=2, ensure_ascii=False) + "\n"
    (args.out / "tokenizer_config.json").write_text(text, encoding="utf-8")
    print(f"{args.size} entries")


if __name__ == "__main__":
    main()
