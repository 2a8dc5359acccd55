#!/usr/bin/env python3
"""Builds a Hugging Face tokenizer folder for Qwen2/2.5/3 from tiktoken ranks and a tokenizer_config.json.

    build_qwen_tokenizer.py --ranks qwen.tiktoken --config qwen3.tokenizer_config.json --out FOLDER

Writes FOLDER/tokenizer.json in the shape in which Qwen publishes it (NFC; the split pattern of Qwen2; byte-level BPE;
merges as pairs) and copies the configuration beside it. A merge of a rank's token is the pair of tokens that BPE with
all lower ranks leaves of it. Needs nothing but the standard library.
"""
import argparse
import base64
import json
import pathlib
import shutil

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")


def byte_characters():
    """The printable character that stands for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    characters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(256 + len(characters) - len(printable))
    return characters


def read_ranks(path):
    ranks = {}
    for line in path.read_bytes().splitlines():
        if line:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    return ranks


def split_by_lower_ranks(ranks, token):
    """What BPE makes of the token with only the merges that come before its own."""
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        candidates = [(ranks.get(parts[i] + parts[i + 1], len(ranks)), i) for i in range(len(parts) - 1)]
        rank, at = min(candidates)
        if rank >= ranks[token]:
            raise SystemExit(f"token {token!r} of rank {ranks[token]} cannot be merged from lower ranks")
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def build(ranks, config):
    characters = byte_characters()
    text = lambda token: "".join(characters[byte] for byte in token)
    ordered = sorted(ranks, key=ranks.get)
    merges = [[text(part) for part in split_by_lower_ranks(ranks, token)] for token in ordered if len(token) > 1]
    added = [{"id": int(token_id), **{key: token[key] for key in
              ("content", "single_word", "lstrip", "rstrip", "normalized", "special")}}
             for token_id, token in sorted(config["added_tokens_decoder"].items(), key=lambda item: int(item[0]))]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}, byte_level]},
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {text(token): ranks[token] for token in ordered}, "merges": merges},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=pathlib.Path, required=True, help="qwen.tiktoken: base64 token, rank")
    parser.add_argument("--config", type=pathlib.Path, required=True, help="tokenizer_config.json with the added tokens")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write")
    arguments = parser.parse_args()
    tokenizer = build(read_ranks(arguments.ranks), json.loads(arguments.config.read_text(encoding="utf-8")))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    shutil.copyfile(arguments.config, arguments.out / "tokenizer_config.json")


if __name__ == "__main__":
    main()
