"""A folder with a model that the engine can run: what is in it, written and read.

    generator.json   what kind of model: sizes, tokens, how conversations are written
    model.onnx       the graph of a step
    weights.bin      its weights, which the runtime maps rather than reads

Knows files. Refuses to know how they were made.
"""

from pathlib import Path
from typing import Final

import msgspec

from headway.decoder.shape import DecoderShape
from headway.decoder.tokenizer import Vocabulary
from headway.decoder.words import ChatForm
from headway.errors import LoadError

__all__ = ["CARD_FILE", "GRAPH_FILE", "Card", "read_card", "write_card"]

CARD_FILE: Final = "generator.json"
GRAPH_FILE: Final = "model.onnx"
_FORMAT: Final = 1


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a model without its weights."""

    name: str
    shape: DecoderShape
    vocabulary: Vocabulary
    chat: ChatForm | None = None
    format: int = _FORMAT


def write_card(card: Card, folder: Path) -> None:
    """Last of all files, so that a folder with a card is whole."""
    (folder / CARD_FILE).write_bytes(msgspec.json.encode(card))


def read_card(folder: Path) -> Card:
    """What a folder holds.

    Raises:
        LoadError: no such folder, or no model of this format in it.
    """
    path = folder / CARD_FILE
    try:
        card = msgspec.json.decode(path.read_bytes(), type=Card)
    except OSError as error:
        raise LoadError(
            f"`{folder}` holds no model for the built-in engine: there is no `{CARD_FILE}`",
            hint="make one with `headway generate convert`",
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LoadError(f"`{path}` is not understood: {error}") from error
    if card.format != _FORMAT:
        raise LoadError(
            f"`{path}` has format `{card.format}`, and this version reads `{_FORMAT}`",
            hint="convert the model again",
        )
    return card
