"""Seeded random Unicode text that provokes tokenizers: scripts, marks, white space, digits, new code points, tokens."""
import random

BLOCKS = [  # (first, last, weight)
    (0x20, 0x7E, 12), (0x00, 0x1F, 2), (0x80, 0xFF, 4), (0x100, 0x24F, 3), (0x300, 0x36F, 6), (0x370, 0x52F, 4),
    (0x590, 0x6FF, 4), (0x700, 0x8FF, 3), (0x900, 0xDFF, 5), (0xE00, 0x10FF, 4), (0x1100, 0x11FF, 4), (0x1200, 0x1CFF, 4),
    (0x1D00, 0x1FFF, 5), (0x2000, 0x206F, 5), (0x2070, 0x2BFF, 4), (0x2C00, 0x2FFF, 3), (0x3000, 0x33FF, 6),
    (0x3400, 0x9FFF, 5), (0xA000, 0xABFF, 4), (0xAC00, 0xD7FF, 4), (0xE000, 0xF8FF, 1), (0xF900, 0xFAFF, 4),
    (0xFB00, 0xFFFF, 5), (0x10000, 0x10FFF, 6), (0x11000, 0x11FFF, 8), (0x12000, 0x16FFF, 4), (0x17000, 0x1CFFF, 3),
    (0x1D000, 0x1D7FF, 4), (0x1D800, 0x1EFFF, 4), (0x1F000, 0x1FBFF, 6), (0x20000, 0x323FF, 3), (0xE0000, 0xE01EF, 2),
    (0x0, 0x10FFFF, 2)]
SNIPPETS = ["'s", "'S", "'ſ", "'ll", "'LL", "'Ve", "'re", "'m", "'D", "'t", "'T", "’s", " ", "  ", "   ", "\t", "\n",
            "\n\n", "\r\n", " \n", "\n ", "\u0085", "\u180e", "\u00a0", "\u2028", "\u3000", "\ufeff", "\u200b", "\u200d",
            "the", " The", "Hello", " world", "123", "4", " 56", "٣٤", "Ⅷ", "½", "ß", "ŉ", "İ", "ı", "ﬁ", "K", "Å", "e\u0301",
            "\u0307\u0323", "\u1100\u1161\u11a8", "가\u11a8", "か\u3099", "\u0915\u093c", "👨\u200d👩\u200d👧", "🇫🇷", "\ufe0f",
            "...", "!!", "—", "_", "-", "$", "€5", "\0", "\x7f", "def f(x):", "    return", "http://a.b/c?d=e"]
_CUMULATIVE = [sum(weight for _, _, weight in BLOCKS[:i + 1]) for i in range(len(BLOCKS))]


def _code_point(rng):
    while True:
        first, last, _ = rng.choices(BLOCKS, cum_weights=_CUMULATIVE)[0]
        value = rng.randint(first, last)
        if not 0xD800 <= value <= 0xDFFF:
            return chr(value)


def random_texts(seed, count, tokens=()):
    """`count` strings; `tokens` (added tokens, say) are sprinkled in, whole and cut."""
    rng = random.Random(seed)
    tokens = list(tokens)
    for _ in range(count):
        parts = []
        repeat = _code_point(rng)
        block = rng.choice(BLOCKS)
        for _ in range(rng.randint(1, rng.choice((3, 10, 40)))):
            kind = rng.random()
            if kind < 0.40:
                parts.append(_code_point(rng))
            elif kind < 0.55:
                value = rng.randint(block[0], block[1])
                parts.append(chr(value) if not 0xD800 <= value <= 0xDFFF else " ")
            elif kind < 0.80:
                parts.append(rng.choice(SNIPPETS))
            elif kind < 0.88:
                parts.append(repeat * rng.randint(1, 5))
            elif kind < 0.96 and tokens:
                token = rng.choice(tokens)
                parts.append(token if rng.random() < 0.7 else token[:rng.randint(0, len(token))])
            else:
                parts.append(rng.choice((" ", "\n", "\t", "\u2003")) * rng.randint(1, 6))
        yield "".join(parts)
