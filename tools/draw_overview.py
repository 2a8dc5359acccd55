#!/usr/bin/env python3
"""Draws docs/images/overview.svg: what one prefill answers, and what is computed once.

    python3 tools/draw_overview.py > docs/images/overview.svg
"""

INK, SOFT, PAPER = "#1f2933", "#7b8794", "#ffffff"
SHARED, FRESH, ENGINE, YES = "#9fb3c8", "#f7c948", "#243b53", "#3ebd93"
ROWS = [
    ("play some jazz", (0.97, 0.02, 0.01), "PlayMusic"),
    ("will it rain on friday", (0.01, 0.98, 0.01), "GetWeather"),
    ("a table for two at noon", (0.02, 0.01, 0.97), "BookRestaurant"),
]


def text(x, y, value, size=14, fill=INK, anchor="start", weight="normal"):
    return (f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{value}</text>')


def box(x, y, width, height, fill, radius=6, stroke="none"):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" fill="{fill}" stroke="{stroke}"/>'


def arrow(x1, y1, x2, y2):
    return (f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{SOFT}" stroke-width="2" '
            'marker-end="url(#head)"/>')


def draw() -> str:
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1040 330" font-family="sans-serif">',
        f'<defs><marker id="head" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{SOFT}"/></marker></defs>',
        box(0, 0, 1040, 330, PAPER, 0),
        text(20, 34, "contexts: one task, many rows", 15, weight="bold"),
        text(500, 34, "one forward pass", 15, anchor="middle", weight="bold"),
        text(700, 34, "logits of the candidates", 15, weight="bold"),
    ]
    for i, (row, probabilities, answer) in enumerate(ROWS):
        y = 60 + i * 72
        parts += [box(20, y, 170, 44, SHARED), text(105, y + 27, "instructions, options", 13, anchor="middle"),
                  box(194, y, 180, 44, FRESH), text(284, y + 27, row, 13, anchor="middle"),
                  arrow(380, y + 22, 420, y + 22), arrow(580, y + 22, 690, y + 22)]
        for c, (label, p) in enumerate(zip("ABC", probabilities)):
            top = y + 2 + c * 15
            winner = p == max(probabilities)
            parts += [text(700, top + 11, label, 12), box(718, top + 1, 1 + 110 * p, 11, YES if winner else SHARED, 2),
                      text(838, top + 11, f"{p:.2f}", 12, SOFT)]
        parts.append(text(885, y + 27, answer, 12, weight="bold"))
    parts += [
        box(424, 56, 152, 196, ENGINE),
        text(500, 92, "attention:", 13, PAPER, "middle", "bold"), text(500, 111, "on each rank", 13, PAPER, "middle"),
        text(500, 151, "experts:", 13, PAPER, "middle", "bold"), text(500, 170, "brought to where", 13, PAPER, "middle"),
        text(500, 188, "the tokens are", 13, PAPER, "middle"),
        text(500, 228, "no decoding", 13, PAPER, "middle", "bold"),
        box(20, 284, 22, 16, SHARED), text(50, 297, "computed once, then reused in blocks of 16 tokens", 13),
        box(424, 284, 22, 16, FRESH), text(454, 297, "computed for each row; the output head for one position only", 13),
        "</svg>",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    print(draw())
