#!/usr/bin/env python3
"""Prints what model_bench and compare_with_transformers.py measured as a table, and draws it.

    tools/bench_table.py [bench/results/*.jsonl] [--plot-shapes OUT.svg] [--plot-sweep OUT.svg]

Reads lines of "model" (this engine), "model_peer" (transformers) and "model_sweep" (step sizes with experts on the host);
others are left out. Of two lines of the same cell the later one counts. Needs nothing but the standard library.
"""

import argparse
import json
import math
import pathlib
import sys

WIDTH, LEFT, TOP, HEIGHT = 900, 80, 60, 260
BAR_COLOURS = {"model_peer": "#bab0ac", "model": "#4c78a8"}
BAR_NAMES = {"model_peer": "transformers, compiled", "model": "ZeRO-Prefill"}
LINE_COLOURS = {"resident": "#222", "host gather-all": "#4c78a8", "host fetch-routed": "#f58518"}


def read(paths):
    lines = {}
    for path in paths:
        for text in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            line = json.loads(text) if text.strip() else {}
            if line.get("bench") in ("model", "model_peer", "model_sweep"):
                lines[key_of(line)] = line
    return list(lines.values())


def key_of(line):
    names = ("bench", "model", "layers", "gpus", "experts", "mode", "requests", "context", "expert_skew_asked")
    return tuple(line.get(name) for name in names)


def model_of(line):
    return f"{line['model'].removeprefix('random:')}, {line['layers']} layers"


def shape_of(line):
    return f"{line['requests']}x{line['context']}"


def series_of(line):
    place = "resident" if line["experts"] == "resident" else f"{line['experts']} {line['mode']}"
    skew = line.get("expert_skew_asked") or 1
    return place if skew == 1 else f"{place} skew {skew:g}"


def print_table(lines):
    peers = {(model_of(r), shape_of(r)): r["tokens_per_s_per_gpu"] for r in lines if r["bench"] == "model_peer"}
    rows = [("model", "shape", "who", "experts", "tokens/s/GPU", "MFU", "exposed", "to peer", "commit")]
    for line in sorted(lines, key=lambda r: (model_of(r), r["bench"] == "model_sweep", r["context"], r["tokens"])):
        peer = peers.get((model_of(line), shape_of(line)))
        rate = line["tokens_per_s_per_gpu"]
        rows.append(
            (
                model_of(line),
                shape_of(line),
                "peer" if line["bench"] == "model_peer" else "engine",
                series_of(line),
                f"{rate:,.0f}",
                "-" if line["mfu"] is None else f"{line['mfu']:.1%}",
                f"{line['exposed_fraction']:.1%}",
                f"{rate / peer:.2f}" if peer and line["bench"] != "model_peer" else "-",
                line["commit"],
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) if i < 4 else text.rjust(width) for i, (text, width) in enumerate(zip(row, widths))))


def text(x, y, content, size=11, anchor="middle", colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{content}</text>'


def axis(parts, top, bound, x_end):
    """Horizontal lines of tokens/s from 0 to `bound`."""
    for i in range(5):
        y = top + HEIGHT * (1 - i / 4)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{x_end}" y2="{y:.1f}" stroke="#e4e4e4"/>')
        parts.append(text(LEFT - 6, y + 4, f"{bound * i / 4 / 1000:,.0f}K", anchor="end"))


def round_up(value):
    step = 10 ** math.floor(math.log10(value))
    return math.ceil(value / step) * step


def legend(parts, names):
    x = LEFT
    for name, colour in names:
        parts.append(f'<rect x="{x}" y="14" width="14" height="10" fill="{colour}"/>')
        parts.append(text(x + 20, 23, name, anchor="start"))
        x += 50 + 7 * len(name)


def document(parts, height):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def draw_shapes(lines):
    """A panel a model: tokens/s of each shape that the peer was measured at, the peer beside the engine."""
    both = {(model_of(r), shape_of(r)) for r in lines if r["bench"] == "model_peer"}
    lines = [r for r in lines if r["bench"] in BAR_COLOURS and series_of(r) == "resident"]
    lines = [r for r in lines if (model_of(r), shape_of(r)) in both]
    parts = []
    legend(parts, [(BAR_NAMES[bench], BAR_COLOURS[bench]) for bench in BAR_COLOURS])
    top = TOP
    for model in sorted({model_of(r) for r in lines}):
        of_model = [r for r in lines if model_of(r) == model]
        bound = round_up(max(r["tokens_per_s_per_gpu"] for r in of_model))
        parts.append(text(LEFT, top - 12, f"{model}: tokens/s", 12, "start"))
        axis(parts, top, bound, WIDTH - 20)
        shapes = sorted({(r["context"], shape_of(r)) for r in of_model})
        slot = (WIDTH - LEFT - 20) / len(shapes)
        for i, (_, shape) in enumerate(shapes):
            middle = LEFT + (i + 0.5) * slot
            parts.append(text(middle, top + HEIGHT + 16, shape))
            for j, bench in enumerate(BAR_COLOURS):
                for line in (r for r in of_model if shape_of(r) == shape and r["bench"] == bench):
                    height = HEIGHT * line["tokens_per_s_per_gpu"] / bound
                    x, width = middle + (j - 1) * 0.3 * slot, 0.28 * slot
                    parts.append(
                        f'<rect x="{x:.1f}" y="{top + HEIGHT - height:.1f}" width="{width:.1f}" height="{height:.1f}" '
                        f'fill="{BAR_COLOURS[bench]}"/>'
                    )
                    parts.append(text(x + width / 2, top + HEIGHT - height - 4, f"{line['mfu'] or 0:.0%}", 10))
        top += HEIGHT + 70
    return document(parts, top - 20)


def draw_sweep(lines):
    """A panel a model that was swept: tokens/s over tokens a step, a line for each place of experts and way to get
    them, with what was measured of experts on the host besides."""
    swept = {model_of(r) for r in lines if r["bench"] == "model_sweep"}
    lines = [r for r in lines if model_of(r) in swept and (r["bench"] == "model_sweep" or r["experts"] == "host")]
    parts = []
    legend(parts, list(LINE_COLOURS.items()))
    top = TOP
    for model in sorted({model_of(r) for r in lines}):
        of_model = [r for r in lines if model_of(r) == model]
        bound = round_up(max(r["tokens_per_s_per_gpu"] for r in of_model))
        tokens = sorted({r["tokens"] for r in of_model})
        span = max(1e-9, math.log2(tokens[-1]) - math.log2(tokens[0]))

        def x_of(count, tokens=tokens, span=span):
            return LEFT + 20 + (math.log2(count) - math.log2(tokens[0])) / span * (WIDTH - LEFT - 60)

        parts.append(text(LEFT, top - 12, f"{model}: tokens/s over tokens a step", 12, "start"))
        axis(parts, top, bound, WIDTH - 20)
        for count in tokens:
            parts.append(text(x_of(count), top + HEIGHT + 16, f"{count / 1000:.0f}K" if count >= 1000 else str(count), 9))
        for name, colour in LINE_COLOURS.items():
            found = sorted((r["tokens"], r["tokens_per_s_per_gpu"]) for r in of_model if series_of(r) == name)
            points = [(x_of(count), top + HEIGHT * (1 - rate / bound)) for count, rate in found]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        top += HEIGHT + 70
    return document(parts, top - 20)


def main():
    parser = argparse.ArgumentParser(description="Prints and draws measurements of whole models.")
    parser.add_argument("results", nargs="*")
    parser.add_argument("--plot-shapes", default="")
    parser.add_argument("--plot-sweep", default="")
    arguments = parser.parse_args()
    folder = pathlib.Path(__file__).resolve().parent.parent / "bench" / "results"
    lines = read(arguments.results or sorted(folder.glob("*.jsonl")))
    if not lines:
        print("there are no measurements of whole models")
        return 1
    print_table(lines)
    for path, draw in ((arguments.plot_shapes, draw_shapes), (arguments.plot_sweep, draw_sweep)):
        if path:
            pathlib.Path(path).write_text(draw(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
