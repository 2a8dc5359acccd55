"""Split the data sets and write the rows of every task: train, val and test, as JSON lines.

Usage: python prepare.py DATA_FOLDER OUT_FOLDER

Official test parts stay test parts. Near-duplicates never cross parts: a row of a pool that
is close to any test row is dropped, and the groups of near-duplicates that remain go to
train or val as a whole, by a hash. The unsplit set goes to train, val and test by the same hash.
A fourth file, lm.jsonl, holds plain training texts for the language-model loss.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dedup import near_duplicate_groups, words
from sources import Item, read_all, topic_phrase

VAL_SHARE = 0.10
TEST_SHARE = 0.20  # of the set that comes without parts
NEGATIVES = 6  # wrong topics for each training message of `verify`


def fraction(key: str) -> float:
    """A number in [0, 1) that depends on nothing but the key."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64


def split(items: list[Item]) -> list[Item]:
    """Give every item its final part, dropping pool rows close to a test row."""
    groups = near_duplicate_groups([item.text for item in items])
    members: dict[int, list[Item]] = defaultdict(list)
    for item, group in zip(items, groups, strict=True):
        members[group].append(item)
    result = []
    dropped: Counter[str] = Counter()
    for rows in members.values():
        place = fraction("part:" + min(" ".join(sorted(words(row.text))) for row in rows))
        has_test = any(row.part == "test" for row in rows)
        unsplit = any(row.part == "" for row in rows)
        if has_test or (unsplit and place < TEST_SHARE):
            part = "test"
        else:
            part = "val" if TEST_SHARE <= place < TEST_SHARE + VAL_SHARE else "train"
        for row in rows:
            if row.part == "pool" and part == "test":
                dropped[row.source] += 1
            else:
                result.append(replace(row, part="test" if row.part == "test" else part))
    print("dropped, near a test row:", dict(dropped))
    order = {item.id: number for number, item in enumerate(items)}
    return sorted(result, key=lambda item: order[item.id])


def row(task: str, item: Item, label: str, **extra: str) -> dict:
    """One row as the JSON lines hold it."""
    return {"task": task, "id": item.id, "columns": {**extra, "text": item.text}, "label": label}


def wrong_topic(item: Item, number: int, intents: dict[str, str]) -> str:
    """A topic the message is not about; every other one is of the same domain."""
    near = [i for i, domain in intents.items() if domain == item.domain and i != item.label]
    far = [i for i, domain in intents.items() if domain != item.domain]
    pool = near if (number + int(2 * fraction("near:" + item.id))) % 2 == 0 else far
    return topic_phrase(pool[int(fraction(f"topic:{number}:{item.id}") * len(pool))])


def verify_rows(item: Item, part: str, intents: dict[str, str]) -> Iterator[dict]:
    """Claims about one message: one true and several false for training, else one of either."""
    right = topic_phrase(item.label)
    if part == "train":
        yield row("verify", item, "true", topic=right)
        for number in range(NEGATIVES):
            yield row("verify", item, "false", topic=wrong_topic(item, number, intents))
    elif fraction("claim:" + item.id) < 0.5:
        yield row("verify", item, "true", topic=right)
    else:
        yield row("verify", item, "false", topic=wrong_topic(item, 0, intents))


def balanced(rows: list[dict]) -> list[dict]:
    """As many rows of each label as the rarest has, chosen by hash."""
    by_label = defaultdict(list)
    for entry in rows:
        by_label[entry["label"]].append(entry)
    count = min(len(entries) for entries in by_label.values())
    kept = set()
    for entries in by_label.values():
        ordered = sorted(entries, key=lambda entry: fraction("balance:" + entry["id"]))
        kept |= {entry["id"] for entry in ordered[:count]}
    return [entry for entry in rows if entry["id"] in kept]


def task_rows(items: list[Item], part: str) -> list[dict]:
    """The rows of all tasks for one part."""
    intents = {item.label: item.domain for item in items if item.source == "clinc"}
    chosen = [item for item in items if item.part == part]
    rows = [row("intent", item, item.label) for item in chosen if item.source == "snips"]
    rows += [row("banking", item, item.label) for item in chosen if item.source == "banking"]
    for item in chosen:
        if item.source == "clinc":
            rows.append(row("domain", item, item.domain))
            rows.extend(verify_rows(item, part, intents))
    tweets = [row("moderation", item, item.label) for item in chosen if item.source == "davidson"]
    if part == "train":
        return rows + tweets
    natural = [{**entry, "task": "moderation-natural"} for entry in tweets]
    return rows + balanced(tweets) + natural


def lm_rows(items: list[Item]) -> Iterator[dict]:
    """Training texts with what they are about, for the language-model loss."""
    for item in items:
        if item.part == "train":
            clinc = item.source == "clinc"
            about = topic_phrase(item.label) if clinc else item.label.replace("_", " ")
            tail = "" if item.source == "davidson" else f"\nTopic: {about}"
            yield {"text": f"Message: {item.text}{tail}"}


def write(path: Path, rows: list[dict]) -> None:
    """Write JSON lines and say how many."""
    lines = [json.dumps(entry, ensure_ascii=False) + "\n" for entry in rows]
    path.write_text("".join(lines), encoding="utf-8")
    counts = Counter(entry.get("task", "lm") for entry in rows)
    print(f"{path.name}: {dict(counts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with intents/ and moderation/")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    items = split(read_all(args.data))
    for part in ("train", "val", "test"):
        write(args.out / f"{part}.jsonl", task_rows(items, part))
    write(args.out / "lm.jsonl", list(lm_rows(items)))


if __name__ == "__main__":
    main()
