"""Write the example rows that ship with the project, and read such files back.

Usage: python example_rows.py TEST.jsonl OUT_FOLDER

The rows come from the test part only, chosen by a hash, as JSON lines, CSV or TSV.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

from prepare import fraction

FILES = {
    "intent": ("jsonl", 120),
    "moderation": ("csv", 120),
    "domain": ("tsv", 120),
    "verify": ("jsonl", 120),
    "banking": ("csv", 150),
}


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a JSON lines, CSV (RFC 4180) or TSV (no quoting) file, by column."""
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in file]
        if path.suffix == ".csv":
            return list(csv.DictReader(file))
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    """Write rows in the format that the file's suffix names."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            return
        style = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {}
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n", **style)
        writer.writeheader()
        writer.writerows(rows)


def choose(rows: list[dict], task: str, suffix: str, count: int) -> list[dict[str, str]]:
    """So many rows of a task, those with the smallest hashes; TSV takes plain text only."""
    flat = [
        {"id": row["id"], **row["columns"], "label": row["label"]}
        for row in rows
        if row["task"] == task
        and not (suffix == "tsv" and any(c in row["columns"]["text"] for c in '"\t\r\n'))
    ]
    return sorted(flat, key=lambda row: fraction(f"example:{task}:{row['id']}"))[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("test", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.test.read_text(encoding="utf-8").splitlines()]
    args.out.mkdir(parents=True, exist_ok=True)
    for task, (suffix, count) in FILES.items():
        path = args.out / f"{task}.{suffix}"
        write_rows(path, choose(rows, task, suffix, count))
        print(f"{path.name}: {len(read_rows(path))} rows")


if __name__ == "__main__":
    main()
