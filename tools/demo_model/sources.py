"""Readers of the public data sets that the demo model is made from.

Only sets whose licences allow reuse are read: SNIPS (CC0 1.0), CLINC150 (CC BY 3.0),
Banking77 (CC BY 4.0) and the tweets of Davidson et al. (MIT).
"""

from __future__ import annotations

import csv
import html
import json
from dataclasses import dataclass
from pathlib import Path

# Names of CLINC150 intents that say too little, or read badly, once '_' becomes a space.
_TOPICS = {
    "apr": "the annual percentage rate of a card",
    "are_you_a_bot": "whether the assistant is a bot",
    "cancel": "cancelling the current request",
    "date": "today's date",
    "do_you_have_pets": "the pets of the assistant",
    "food_last": "how long food lasts",
    "gas": "the fuel level",
    "goodbye": "saying goodbye",
    "greeting": "saying hello",
    "how_busy": "how busy a restaurant is",
    "how_old_are_you": "the age of the assistant",
    "maybe": "answering maybe",
    "mpg": "fuel economy",
    "next_song": "skipping to the next song",
    "no": "answering no",
    "order": "ordering a product",
    "repeat": "repeating the last answer",
    "text": "sending a text message",
    "thank_you": "saying thank you",
    "time": "the time of day",
    "uber": "booking a ride",
    "user_name": "the name of the user",
    "w2": "the w2 tax form",
    "what_are_your_hobbies": "the hobbies of the assistant",
    "what_can_i_ask_you": "what the assistant can do",
    "what_is_your_name": "the name of the assistant",
    "what_song": "which song is playing",
    "where_are_you_from": "where the assistant comes from",
    "who_do_you_work_for": "who the assistant works for",
    "who_made_you": "who made the assistant",
    "yes": "answering yes",
}


@dataclass(frozen=True)
class Item:
    """One text of a data set. `part` is 'pool' (may be trained on), 'test', or '' if unsplit."""

    source: str
    id: str
    part: str
    text: str
    label: str
    domain: str = ""


def topic_phrase(intent: str) -> str:
    """A short English phrase for a CLINC150 intent."""
    return _TOPICS.get(intent, intent.replace("_", " "))


def _clean(text: str) -> str:
    return " ".join(text.split())


def read_snips(root: Path) -> list[Item]:
    """SNIPS: the validation files are its held-out part."""
    items = []
    for part, name in (("pool", "train"), ("test", "validate")):
        data = json.loads((root / f"intents/snips/{name}.json").read_text(encoding="utf-8"))
        for intent, rows in data.items():
            for row in rows:
                text = _clean("".join(piece["text"] for piece in row["data"]))
                items.append(Item("snips", f"snips-{name}-{len(items)}", part, text, intent))
    return items


def read_clinc(root: Path) -> list[Item]:
    """CLINC150 without its out-of-scope rows; its train and val parts form the pool."""
    folder = root / "intents/clinc150"
    data = json.loads((folder / "data_full.json").read_text(encoding="utf-8"))
    domains = json.loads((folder / "domains.json").read_text(encoding="utf-8"))
    domain_of = {intent: domain for domain, intents in domains.items() for intent in intents}
    items = []
    for part, name in (("pool", "train"), ("pool", "val"), ("test", "test")):
        for number, (text, intent) in enumerate(data[name]):
            row_id = f"clinc-{name}-{number}"
            items.append(Item("clinc", row_id, part, _clean(text), intent, domain_of[intent]))
    return items


def read_banking(root: Path) -> list[Item]:
    """Banking77; two category names are normalised (lower case, no question mark)."""
    items = []
    for part, name in (("pool", "train"), ("test", "test")):
        with (root / f"intents/banking77/{name}.csv").open(encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.DictReader(file)):
                label = row["category"].lower().rstrip("?")
                row_id = f"banking-{name}-{number}"
                items.append(Item("banking", row_id, part, _clean(row["text"]), label))
    return items


def read_davidson(root: Path) -> list[Item]:
    """Davidson et al.: hate speech and offensive language are 'true', neither is 'false'.

    The set comes unsplit. HTML entities are decoded; line breaks inside tweets are kept.
    """
    path = root / "moderation/davidson/labeled_data.csv"
    items = []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            text = html.unescape(html.unescape(row["tweet"])).replace("\r\n", "\n").strip()
            label = "false" if row["class"] == "2" else "true"
            items.append(Item("davidson", f"davidson-{row['']}", "", text, label))
    return items


def read_all(root: Path) -> list[Item]:
    """Every item of every set, in a fixed order."""
    return [*read_snips(root), *read_clinc(root), *read_banking(root), *read_davidson(root)]
