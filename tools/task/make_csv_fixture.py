#!/usr/bin/env python3
"""Writes the CSV fixtures of tests/task/csv_fixture_test.cpp with Python's csv module as the independent oracle.

For each dialect two files come out: random rows written by csv.writer, and beside them the rows that csv.reader reads
back, one JSON array of [name, value] pairs a line. Seeded: the same bytes each time.

    python3 tools/task/make_csv_fixture.py tests/data/task
"""
import csv
import io
import json
import pathlib
import random
import sys

ALPHABET = ["a", "Z", "7", " ", "\t", ",", '"', '""', "\n", "\r\n", "'", ";", "\\", "é", "€", "😀", "\u00a0", "{{", "}}"]
DIALECTS = {
    "minimal_lf": dict(quoting=csv.QUOTE_MINIMAL, lineterminator="\n"),
    "minimal_crlf": dict(quoting=csv.QUOTE_MINIMAL, lineterminator="\r\n"),
    "all_crlf": dict(quoting=csv.QUOTE_ALL, lineterminator="\r\n"),
    "nonnumeric_lf_bom": dict(quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n"),
}


def random_field(rng):
    return "".join(rng.choice(ALPHABET) for _ in range(rng.choice([0, 0, 1, 2, 5, 20])))


def make(name, dialect, folder):
    rng = random.Random(name)
    column_count = rng.randint(1, 6)
    header = [f"c{i} {rng.choice(ALPHABET)}" for i in range(column_count)]
    text = io.StringIO(newline="")
    writer = csv.writer(text, **dialect)
    writer.writerow(header)
    for _ in range(200):
        writer.writerow([random_field(rng) for _ in range(column_count)])
    encoding = "utf-8-sig" if name.endswith("_bom") else "utf-8"
    (folder / f"csv_{name}.csv").write_bytes(text.getvalue().encode(encoding))

    reader = csv.reader(io.StringIO(text.getvalue(), newline=""), strict=True)
    names = next(reader)
    with open(folder / f"csv_{name}.expected.jsonl", "w", encoding="utf-8", newline="\n") as out:
        for row in reader:
            assert len(row) == len(names)
            out.write(json.dumps(list(zip(names, row)), ensure_ascii=False) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, dialect in DIALECTS.items():
        make(name, dialect, folder)


if __name__ == "__main__":
    main()
