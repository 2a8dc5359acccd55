#!/usr/bin/env python3
"""Compares our token ids with those of Hugging Face tokenizers.

    compare_with_hf.py TOKENIZER [--texts FOLDER] [--random COUNT --seed SEED ...] [--zeroprefill build/zeroprefill]

TOKENIZER is a tokenizer.json or a folder that holds one. Every file below FOLDER that is UTF-8 is compared whole and
line by line, random strings one by one; each of them plainly, with special tokens added, and with special tokens not
parsed, and the plain ids decoded with and without special tokens. Prints the first differences and exact counts;
exits 1 if anything differs. Needs the package `tokenizers`.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

import tokenizers

from random_text import random_texts


def our_lines(command, lines):
    answer = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, encoding="utf-8", check=False)
    if answer.returncode != 0:
        sys.exit(f"{command} failed: {answer.stderr}")
    return [json.loads(line) for line in answer.stdout.split("\n") if line]


class Comparison:
    def __init__(self, tokenizer, zeroprefill, differences_max):
        path = pathlib.Path(tokenizer)
        self.path = path / "tokenizer.json" if path.is_dir() else path
        self.hf = tokenizers.Tokenizer.from_file(str(self.path))
        self.tool = [zeroprefill, "tokenize", "--json", "--tokenizer", str(self.path)]
        self.differences_max = differences_max
        self.differences = 0
        self.compared = 0

    def report(self, what, source, text, theirs, ours):
        self.differences += 1
        if self.differences <= self.differences_max:
            print(f"DIFFERENCE in {what}, {source}: {text[:200]!r}\n  Hugging Face {theirs!r:.400}\n  ours         {ours!r:.400}")

    def check(self, what, items, theirs, ours):
        if len(ours) != len(items):
            sys.exit(f"{what}: {len(items)} inputs but {len(ours)} answers")
        for (source, text), their, our in zip(items, theirs, ours):
            self.compared += 1
            if their != our:
                self.report(what, source, text, their, our)

    def run(self, items):
        """`items`: pairs of a name and a text."""
        if not items:
            return
        texts = [text for _, text in items]
        lines = [json.dumps(text, ensure_ascii=False) for text in texts]
        plain = self.encode(texts, add_special_tokens=False)
        self.check("encode", items, plain, our_lines(self.tool, lines))
        self.check("encode with special tokens", items, self.encode(texts, add_special_tokens=True),
                   our_lines([*self.tool, "--add-special-tokens"], lines))
        self.hf.encode_special_tokens = True
        self.check("encode without parsing special tokens", items, self.encode(texts, add_special_tokens=False),
                   our_lines([*self.tool, "--special-tokens-as-text"], lines))
        self.hf.encode_special_tokens = False
        lists = [json.dumps(ids) for ids in plain]
        for skip in (False, True):
            decoded = self.hf.decode_batch(plain, skip_special_tokens=skip)
            self.check(f"decode, skip_special_tokens={skip}", items, decoded,
                       our_lines([*self.tool, "--decode", *(["--skip-special-tokens"] if skip else [])], lists))

    def run_golden(self, texts_path, ids_path):
        """Texts separated by a line __ggml_vocab_test__, and their ids, a line a text; without added tokens."""
        texts = pathlib.Path(texts_path).read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
        golden = [[int(token) for token in line.split()] for line in pathlib.Path(ids_path).read_text().split("\n")]
        golden = golden[:len(texts)]
        lines = [json.dumps(text, ensure_ascii=False) for text in texts]
        self.check("golden ids", list(zip(texts, texts)), golden, our_lines(self.tool, lines))
        return len(texts)

    def encode(self, texts, add_special_tokens):
        return [encoding.ids for encoding in self.hf.encode_batch_fast(texts, add_special_tokens=add_special_tokens)]


class Batch:
    """Gathers texts, since each run of the program loads the tokenizer anew."""

    def __init__(self, comparison, items_max=50000, characters_max=8_000_000):
        self.comparison, self.items_max, self.characters_max = comparison, items_max, characters_max
        self.items, self.characters = [], 0

    def add(self, source, text):
        self.items.append((source, text))
        self.characters += len(text)
        if len(self.items) >= self.items_max or self.characters >= self.characters_max:
            self.flush()

    def flush(self):
        self.comparison.run(self.items)
        self.items, self.characters = [], 0


def texts_of(folder):
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if not path.is_file():
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            print(f"left out {path}: {error}")
            continue
        yield path, text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("--texts", action="append", default=[], help="a folder (or file) of texts")
    parser.add_argument("--random", type=int, default=0, help="random strings a seed")
    parser.add_argument("--seed", type=int, action="append", default=[])
    parser.add_argument("--golden", nargs=2, action="append", default=[], metavar=("TEXTS", "IDS"),
                        help="golden texts and ids of llama.cpp")
    parser.add_argument("--zeroprefill", default="build/zeroprefill", help="the program")
    parser.add_argument("--differences-max", type=int, default=10, help="differences to print")
    arguments = parser.parse_args()
    begin = time.monotonic()
    comparison = Comparison(arguments.tokenizer, arguments.zeroprefill, arguments.differences_max)
    files = lines = size = 0
    batch = Batch(comparison)
    for folder in arguments.texts:
        for path, text in texts_of(folder):
            parts = text.split("\n")
            batch.add(str(path), text)
            for i, line in enumerate(parts):
                batch.add(f"{path}:{i + 1}", line)
            files, lines, size = files + 1, lines + len(parts), size + len(text.encode())
    added = [token.content for token in comparison.hf.get_added_tokens_decoder().values()]
    strings = 0
    for seed in (arguments.seed or [1]) if arguments.random else []:
        for i, text in enumerate(random_texts(seed, arguments.random, added)):
            batch.add(f"seed {seed}, string {i}", text)
        strings += arguments.random
    batch.flush()
    golden = sum(comparison.run_golden(*pair) for pair in arguments.golden)
    print(f"{comparison.path}: {files} files ({size} bytes, {lines} lines), {strings} random strings, "
          f"{golden} golden texts, "
          f"{comparison.compared} comparisons, {comparison.differences} differences "
          f"in {time.monotonic() - begin:.0f} s (tokenizers {tokenizers.__version__})")
    sys.exit(1 if comparison.differences else 0)


if __name__ == "__main__":
    main()
