#!/usr/bin/env python3
"""Draws a trace of `zeroprefill run --trace` as an SVG: a row for each lane of each rank, time from left to right.

    tools/plot_trace.py TRACE.json OUT.svg [--from MS] [--to MS] [--ranks N]

Without limits it draws everything. Needs nothing but the standard library.
"""

import argparse
import html
import json
import pathlib

WIDTH, LEFT, ROW, GAP, TOP = 1100, 130, 18, 10, 56
# Colours by what a span is; its name begins with one of these words.
COLOURS = {
    "attention": "#4c78a8",
    "router": "#9ecae9",
    "experts": "#54a24b",
    "dense": "#88d27a",
    "wait": "#e45756",
    "gather": "#f58518",
    "host": "#b279a2",
    "late": "#d67195",
    "serve": "#72b7b2",
}


def colour_of(name):
    return COLOURS.get(name.split(" ")[0], "#bab0ac")


def read(path):
    """Spans as (rank, lane, name, begin_ms, end_ms), and the lanes' names."""
    events = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["traceEvents"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    spans = [
        (e["pid"], e["tid"], e["name"], e["ts"] / 1000, (e["ts"] + e["dur"]) / 1000) for e in events if e["ph"] == "X"
    ]
    return spans, lanes


def text(x, y, content, size=11, anchor="start", colour="#333"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">'
        f"{html.escape(content)}</text>"
    )


def draw_legend():
    parts, x = [], LEFT
    for name, colour in COLOURS.items():
        parts.append(f'<rect x="{x}" y="12" width="12" height="12" fill="{colour}"/>')
        parts.append(text(x + 16, 22, name))
        x += 36 + 7 * len(name)
    return parts


def draw_axis(begin, end, height):
    parts = []
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 1e4, 1e6) if (end - begin) / s <= 12)
    scale = (WIDTH - LEFT - 10) / (end - begin)
    tick = 0
    while tick * step <= end - begin:
        x = LEFT + tick * step * scale
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 6}" stroke="#ddd"/>')
        parts.append(text(x, TOP - 10, f"{tick * step:g} ms", 10, "middle", "#777"))
        tick += 1
    return parts


def draw(spans, lanes, begin, end):
    used = sorted({(rank, lane) for rank, lane, *_ in spans})
    rows, y, previous = {}, TOP, None
    for rank, lane in used:
        if previous not in (None, rank):
            y += GAP
        rows[rank, lane], previous = y, rank
        y += ROW
    height = y + 10
    scale = (WIDTH - LEFT - 10) / (end - begin)
    parts = draw_legend() + draw_axis(begin, end, height)
    for (rank, lane), top in rows.items():
        parts.append(text(8, top + 12, f"rank {rank}  {lanes.get((rank, lane), lane)}"))
        parts.append(f'<line x1="{LEFT}" y1="{top + ROW - 2}" x2="{WIDTH - 10}" y2="{top + ROW - 2}" stroke="#eee"/>')
    for rank, lane, name, first, last in spans:
        x = LEFT + (max(first, begin) - begin) * scale
        width = max((min(last, end) - max(first, begin)) * scale, 0.5)
        top = rows[rank, lane]
        parts.append(
            f'<rect x="{x:.2f}" y="{top}" width="{width:.2f}" height="{ROW - 4}" fill="{colour_of(name)}">'
            f"<title>{html.escape(name)}: {last - first:.2f} ms</title></rect>"
        )
        layer = name.split(" ")[-1]
        if width > 8 + 6 * len(layer):
            parts.append(text(x + width / 2, top + 11, layer, 10, "middle", "#fff"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description="Draws a trace as an SVG.")
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--from", dest="begin", type=float, default=0.0, help="milliseconds")
    parser.add_argument("--to", dest="end", type=float, default=None, help="milliseconds")
    parser.add_argument("--ranks", type=int, default=None, help="draw only the first ranks")
    arguments = parser.parse_args()
    spans, lanes = read(arguments.trace)
    if arguments.ranks is not None:
        spans = [s for s in spans if s[0] < arguments.ranks]
    end = arguments.end if arguments.end is not None else max((s[4] for s in spans), default=1.0)
    spans = [s for s in spans if s[4] > arguments.begin and s[3] < end]
    pathlib.Path(arguments.out).write_text(draw(spans, lanes, arguments.begin, end), encoding="utf-8")


if __name__ == "__main__":
    main()
