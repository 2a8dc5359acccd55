#!/usr/bin/env python3
"""Makes the fixtures of tests/tokenizer: small tokenizers, texts, and what Hugging Face tokenizers does with them.

    make_fixtures.py --udhr FOLDER --blns blns.json --out tests/data/tokenizer

Every expected value comes from the package `tokenizers` (0.23.x). The output folder's README says what is what.
"""
import argparse
import json
import pathlib
import zlib

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from build_qwen_tokenizer import PATTERN
from fixture_parts import PRE_TOKENIZERS, VARIANTS
from random_text import random_texts

LANGUAGES = ["eng", "cmn_hans", "jpn", "kor", "tha", "hin", "amh", "arb", "heb", "rus", "ell_monotonic", "vie",
             "deu_1996", "fra", "bod", "sin"]
LINES_A_LANGUAGE = 24
LONG_WORD_BYTES = 1 << 20


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def train(texts, normalizer, pre_tokenizer, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def qwen_small(texts):
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = train(texts, normalizers.NFC(), pre_tokenizers.Sequence([split, byte_level]), 3000)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in
                                  ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>")])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("<tool_call>", "</tool_call>", "<think>", "</think>")])
    return tokenizer


def gpt2_small(texts):
    """With added tokens of every flag, some of which hold or touch others."""
    tokenizer = train(texts, None, pre_tokenizers.ByteLevel(add_prefix_space=False), 2000)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False), AddedToken("<s>", normalized=False),
                                  AddedToken("<mask>", lstrip=True, normalized=False),
                                  AddedToken("<both>", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in (8, 4, 2)] + [AddedToken("\t\t", normalized=True)])
    tokenizer.add_tokens([
        AddedToken("word", single_word=True, normalized=False), AddedToken("right", rstrip=True, normalized=True),
        AddedToken("all", single_word=True, lstrip=True, rstrip=True, normalized=True),
        AddedToken("<s>word", normalized=False), AddedToken("éa", normalized=True), AddedToken("人權", single_word=True),
        AddedToken("the", normalized=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A <|endoftext|>", pair="<s> $A <s> $B", special_tokens=[
            (t, tokenizer.token_to_id(t)) for t in ("<s>", "<|endoftext|>")])
    return tokenizer


def case_of(tokenizer, text):
    """What the tokenizer does with a text; keys are left out where they repeat "ids" or "text"."""
    case = {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}
    with_special = tokenizer.encode(text, add_special_tokens=True).ids
    tokenizer.encode_special_tokens = True
    unparsed = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    decoded = tokenizer.decode(case["ids"], skip_special_tokens=False)
    skipped = tokenizer.decode(case["ids"], skip_special_tokens=True)
    for key, value, default in (("with_special", with_special, case["ids"]), ("unparsed", unparsed, case["ids"]),
                                ("decoded", decoded, text), ("skipped", skipped, decoded)):
        if value != default:
            case[key] = value
    return case


def variants(base, texts):
    """Small changes to one tokenizer, each with what it does to some texts."""
    for name, changes in VARIANTS.items():
        tokenizer_json = json.loads(base)
        model_options = changes.get("model", {})
        tokenizer_json["model"].update(model_options)
        for part, value in changes.items():
            if part not in ("model", "texts"):
                tokenizer_json[part] = value
        tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json))
        rows = [case_of(tokenizer, text) for text in [*changes.get("texts", []), *texts]]
        yield {"name": name, "changes": {k: v for k, v in changes.items() if k != "texts"}, "cases": rows}


def pre_tokenizations(texts):
    for pre_tokenizer in PRE_TOKENIZERS:
        whole = Tokenizer.from_str(json.dumps({
            "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": pre_tokenizer,
            "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})).pre_tokenizer
        cases = [[text, [word for word, _ in whole.pre_tokenize_str(text)]] for text in texts]
        yield {"pre_tokenizer": pre_tokenizer, "cases": cases}


def long_words(tokenizer):
    """Words of 1 MiB by rules that the test knows, and the number and CRC-32 of their ids."""
    state, letters = 1, bytearray()
    for _ in range(LONG_WORD_BYTES):
        state = (state * 1103515245 + 12345) % (1 << 31)
        letters.append(ord("a") + (state >> 16) % 26)
    for name, word in (("repeated", "a" * LONG_WORD_BYTES), ("random", letters.decode())):
        ids = tokenizer.encode(word, add_special_tokens=False).ids
        yield {"name": name, "count": len(ids), "crc32": zlib.crc32(",".join(map(str, ids)).encode())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--udhr", type=pathlib.Path, required=True)
    parser.add_argument("--blns", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    assert tokenizers.__version__.startswith("0.23."), tokenizers.__version__
    wholes = {language: (arguments.udhr / f"{language}.txt").read_text(encoding="utf-8") for language in LANGUAGES}
    lines = [line for text in wholes.values() for line in text.split("\n")[:LINES_A_LANGUAGE]]
    naughty = json.loads(arguments.blns.read_text(encoding="utf-8"))
    for name, make in (("qwen_small", qwen_small), ("gpt2_small", gpt2_small)):
        tokenizer = make([*wholes.values(), *naughty])
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=False), encoding="utf-8")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        wholesome = ["\n".join(text.split("\n")[:LINES_A_LANGUAGE]) for text in wholes.values()]
        write_lines(folder / "udhr.jsonl", [case_of(tokenizer, text) for text in [*lines, *wholesome[:4]]])
        write_lines(folder / "blns.jsonl", [case_of(tokenizer, text) for text in naughty])
        write_lines(folder / "random.jsonl", [case_of(tokenizer, text) for text in random_texts(7, 600, added)])
        write_lines(folder / "long_words.jsonl", long_words(tokenizer))
    (arguments.out / "qwen_small" / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": None, "eos_token": "<|im_end|>", "pad_token": {"content": "<|endoftext|>"}}) + "\n")
    base = train(wholes.values(), None, pre_tokenizers.ByteLevel(add_prefix_space=False), 500)
    base.post_processor = None
    (arguments.out / "base.json").write_text(base.to_str(pretty=False), encoding="utf-8")
    texts = [*random_texts(11, 20), *lines[:2], "Hello world, it's 12 o'clock!\n\n  OK", "", " ", "a-b--c - d", "<s> x </s>"]
    write_lines(arguments.out / "variants.jsonl", variants(base.to_str(), texts))
    write_lines(arguments.out / "pre_tokenizers.jsonl", pre_tokenizations([text for text in texts if text]))


if __name__ == "__main__":
    main()
