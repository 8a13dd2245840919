"""How a test steers the puppet, the model that does what its rows say: orders, leave, notes.

Knows the folder that both look into; the model itself is `models/puppet.py`.
"""

import json
from pathlib import Path
from typing import Any

from tests.e2e.server import MODELS, wait_until

__all__ = ["HOLD", "KILL", "SEGFAULT", "Folder", "puppet", "row"]

HOLD, KILL, SEGFAULT = 1.0, 2.0, 3.0
"""What a row may order the puppet to do."""


class Folder:
    """Where a puppet looks for leave to go on, and notes what it did."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def open(self, tag: object = None) -> None:
        """Let held batches go: one tag's, or all of them from now on."""
        (self.path / ("open" if tag is None else f"open-{tag}")).touch()

    def notes(self) -> list[dict[str, Any]]:
        """What it did, in order."""
        file = self.path / "notes"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def batches(self) -> list[list[int]]:
        """The tags of every batch that was begun, in order."""
        return [note["tags"] for note in self.notes() if "tags" in note]

    def wait_begun(self, tag: int) -> None:
        """Wait until a row with this tag runs."""
        wait_until(lambda: any(tag in tags for tags in self.batches()), f"row {tag} runs")


def puppet(folder: Folder, name: str = "puppet", **settings: object) -> dict[str, object]:
    """A model that does as its rows say; options and settings replace what is here."""
    options = {"folder": str(folder.path)} | settings.pop("options", {})  # type: ignore[operator]
    return {"name": name, "path": f"{MODELS}/puppet.py:Puppet", "options": options, **settings}


def row(tag: float, order: float = 0.0) -> list[list[float]]:
    """One row for the puppet, as a batch of one."""
    return [[tag, order, tag / 2, -tag]]
