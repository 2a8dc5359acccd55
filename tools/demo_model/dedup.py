"""Near-duplicate groups: texts whose sets of words overlap by at least a threshold."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

_WORD = re.compile(r"\w+|[^\w\s]")
_IGNORED = {"rt", "user", "http", "url"}


def words(text: str) -> frozenset[str]:
    """Lower-cased words, without mask words; punctuation only where there is nothing else."""
    found = _WORD.findall(text.lower())
    kept = frozenset(w for w in found if (w.isalnum() or "_" in w) and w not in _IGNORED)
    return kept or frozenset(found)


def near_duplicate_groups(texts: Sequence[str], threshold: float = 0.8) -> list[int]:
    """A group number for each text; texts linked by Jaccard >= threshold share one.

    Prefix filtering: two sets can only reach the threshold if they share a word among the
    first |x| - ceil(threshold * |x|) + 1 words of each, rarest first.
    """
    sets = [words(text) for text in texts]
    frequency = Counter(word for bag in sets for word in bag)
    parent = list(range(len(texts)))

    def find(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    index: dict[str, list[int]] = defaultdict(list)
    for number, bag in enumerate(sets):
        ordered = sorted(bag, key=lambda word: (frequency[word], word))
        prefix = ordered[: len(ordered) - math.ceil(threshold * len(ordered)) + 1]
        for other in {candidate for word in prefix for candidate in index[word]}:
            shared = len(bag & sets[other])
            if shared >= threshold * (len(bag) + len(sets[other]) - shared):
                parent[find(number)] = find(other)
        for word in prefix:
            index[word].append(number)
    return [find(number) for number in range(len(texts))]
