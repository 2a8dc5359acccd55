"""Task files of the demo model: reading them and rendering their prompts.

This is the Python twin of the engine's task layer. Both must render the same bytes: the
model is trained on what this module prints and served on what the engine prints.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

ANSWER = "\nAnswer:"
_COLUMN = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


@dataclass(frozen=True)
class Task:
    """One classification task as its YAML file describes it."""

    name: str
    form: str
    instructions: str
    input: str
    id_column: str
    label_column: str
    choices: tuple[tuple[str, str | None], ...] = ()

    @property
    def candidates(self) -> list[str]:
        """Answer texts in order, each with the leading space that follows 'Answer:'."""
        if self.form == "predicate":
            return [" Yes", " No"]
        return [f" {letters}" for letters in option_letters(len(self.choices))]

    @property
    def prefix(self) -> str:
        """The part of the prompt that every row of the task shares."""
        if self.form == "predicate":
            return f"{self.instructions}\nReply with Yes or No.\n\n"
        labels = option_letters(len(self.choices))
        lines = [self.instructions, "Options:"]
        for letters, (value, description) in zip(labels, self.choices, strict=True):
            lines.append(f"{letters}. {value}" + (f": {description}" if description else ""))
        lines.append("Reply with the letter of one option.")
        return "\n".join(lines) + "\n\n"

    def render_input(self, columns: Mapping[str, str]) -> str:
        """The row's own part of the prompt, before '\\nAnswer:'."""
        return _COLUMN.sub(lambda match: str(columns[match[1]]), self.input).rstrip()

    def render(self, columns: Mapping[str, str]) -> str:
        """The whole prompt of one row."""
        return self.prefix + self.render_input(columns) + ANSWER

    def answer_index(self, label: str) -> int:
        """Position in `candidates` of a label as it stands in the data."""
        if self.form == "predicate":
            return ["true", "false"].index(str(label).lower())
        return [value for value, _ in self.choices].index(label)


def option_letters(count: int) -> list[str]:
    """A..Z, then a..z, then AA, AB, ...: the first `count` option labels."""
    upper = string.ascii_uppercase
    labels = [*upper, *string.ascii_lowercase, *(a + b for a in upper for b in upper)]
    if count > len(labels):
        raise ValueError(f"{count} options, at most {len(labels)} have a label")
    return labels[:count]


def load_task(path: Path) -> Task:
    """Read one task file; its name is the file's stem."""
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    choices = tuple((str(c["value"]), c.get("description")) for c in raw.get("choices", []))
    if (raw["form"] == "choice") != bool(choices) or raw["form"] not in ("choice", "predicate"):
        raise ValueError(f"{path}: form and choices do not fit")
    return Task(
        name=path.stem,
        form=raw["form"],
        instructions=raw["instructions"],
        input=raw["input"],
        id_column=raw["id_column"],
        label_column=raw["label_column"],
        choices=choices,
    )


def load_tasks(folder: Path) -> dict[str, Task]:
    """All task files of a folder, by name."""
    return {path.stem: load_task(path) for path in sorted(folder.glob("*.yaml"))}
