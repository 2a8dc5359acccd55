#!/usr/bin/env python3
"""Draws the degradation curve of bench/expert/below_threshold_bench as an SVG: a column for each link speed, throughput
above and exposed time below, over tokens a step; a line for each mode.

    tools/plot_below_threshold.py RESULTS.jsonl OUT.svg [--placing gathered2]

Needs nothing but the standard library.
"""

import argparse
import json
import math
import pathlib

COLOURS = {"gather-all": "#4c78a8", "fetch-routed": "#f58518", "send-activations": "#54a24b", "auto": "#222"}
WIDTH, LEFT, TOP, GAP = 1100, 70, 74, 24
HEIGHT_RATE, HEIGHT_EXPOSED = 230, 130


def text(x, y, content, size=11, anchor="middle", colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{content}</text>'


def line(points, colour, dashed):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
    return parts


def read(path, placing):
    rows = [json.loads(row) for row in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if row.strip()]
    return [row for row in rows if row["placing"] == placing]


def draw(rows):
    thresholds = sorted({row["threshold_tokens"] for row in rows})
    tokens = sorted({row["tokens"] for row in rows})
    rates = [row["tokens_per_second"] for row in rows]
    low, high = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    column = (WIDTH - LEFT - 10 - GAP * (len(thresholds) - 1)) / len(thresholds)
    below = TOP + HEIGHT_RATE + 34
    bottom = below + HEIGHT_EXPOSED
    x_span = math.log2(tokens[-1]) - math.log2(tokens[0])
    parts = []
    x = LEFT
    for name, colour in COLOURS.items():
        dash = ' stroke-dasharray="5 4"' if name == "auto" else ""
        parts.append(f'<line x1="{x}" y1="16" x2="{x + 24}" y2="16" stroke="{colour}" stroke-width="2"{dash}/>')
        parts.append(text(x + 30, 20, name, anchor="start"))
        x += 60 + 7 * len(name)
    for i, threshold in enumerate(thresholds):
        left = LEFT + i * (column + GAP)

        def at(count, left=left):
            return left + 12 + (math.log2(count) - math.log2(tokens[0])) / x_span * (column - 24)

        def rate_y(rate):
            return TOP + HEIGHT_RATE * (1 - (math.log10(rate) - low) / (high - low))

        def exposed_y(share):
            return below + HEIGHT_EXPOSED * (1 - share)

        speed = next(row["link_bytes_per_second"] for row in rows if row["threshold_tokens"] == threshold)
        parts.append(text(left + column / 2, TOP - 12, f"threshold {threshold} tokens ({speed / 1e6:.1f} MB/s)", 12))
        for top, height in ((TOP, HEIGHT_RATE), (below, HEIGHT_EXPOSED)):
            parts.append(
                f'<rect x="{left:.1f}" y="{top}" width="{column:.1f}" height="{height}" fill="none" stroke="#ccc"/>'
            )
        for exponent in range(low, high + 1):
            y = rate_y(10**exponent)
            parts.append(f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{left + column:.1f}" y2="{y:.1f}" stroke="#eee"/>')
            if i == 0:
                parts.append(text(left - 6, y + 4, f"{10**exponent:,}", anchor="end"))
        for share in (0, 0.5, 1):
            if i == 0:
                parts.append(text(left - 6, exposed_y(share) + 4, f"{share:.0%}", anchor="end"))
        x = at(threshold)
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#aaa" stroke-dasharray="2 3"/>'
        )
        for count in tokens:
            parts.append(text(at(count), bottom + 16, str(count)))
        for name, colour in COLOURS.items():
            found = sorted(
                (r for r in rows if r["threshold_tokens"] == threshold and r["mode"] == name), key=lambda r: r["tokens"]
            )
            if not found:
                continue
            parts += line([(at(r["tokens"]), rate_y(r["tokens_per_second"])) for r in found], colour, name == "auto")
            shares = [min(1, r["exposed_seconds"] / r["step_seconds"]) for r in found]
            parts += line(
                [(at(r["tokens"]), exposed_y(s)) for r, s in zip(found, shares)], colour, name == "auto"
            )
    parts.append(text(LEFT, TOP - 30, "tokens/s, all ranks", 11, "start"))
    parts.append(text(LEFT, below - 8, "exposed time, share of a step", 11, "start"))
    parts.append(text(LEFT + (WIDTH - LEFT) / 2, bottom + 34, "tokens a step and rank", 12))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 46}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description="Draws the degradation curve as an SVG.")
    parser.add_argument("results")
    parser.add_argument("out")
    parser.add_argument("--placing", default="gathered2")
    arguments = parser.parse_args()
    pathlib.Path(arguments.out).write_text(draw(read(arguments.results, arguments.placing)), encoding="utf-8")


if __name__ == "__main__":
    main()
