"""Reads a folder as hubs publish models: `config.json`, `tokenizer.json`, `*.safetensors`.

Safetensors is a length, a JSON head and raw numbers. Knows these files. Refuses to know what a
graph looks like.
"""

import mmap
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from headway.decoder.shape import DecoderShape
from headway.decoder.tokenizer import Vocabulary
from headway.decoder.weights import Floats, from_bfloat16
from headway.decoder.words import chat_form_of
from headway.errors import LoadError

__all__ = ["FolderCheckpoint"]

_HEAD_BYTES_MAX: Final = 64 << 20
_DTYPES: Final = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


class FolderCheckpoint:
    """A model in a folder; tensors are read when they are asked for.

    Raises:
        LoadError: a file is missing or not understood, or the model is no Llama-like decoder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        config = _json_of(folder / "config.json")
        family = config.get("model_type")
        if family != "llama" or config.get("rope_scaling") or config.get("attention_bias"):
            raise LoadError(
                f"`{folder}` holds a `{family}`, or one with scaled positions or biases",
                hint="the built-in engine runs plain decoders of the Llama family",
            )
        self.name = folder.resolve().name
        self.shape = _shape_of(config, folder)
        self.vocabulary = _vocabulary_of(folder, config)
        about = folder / "tokenizer_config.json"
        template = _json_of(about).get("chat_template", "") if about.is_file() else ""
        self.chat = chat_form_of(template if isinstance(template, str) else "")
        self.is_tied = bool(config.get("tie_word_embeddings", False))
        self._entries: dict[str, tuple[Path, dict[str, Any], int]] = {}
        for path in sorted(folder.glob("*.safetensors")):
            self._read_head(path)
        if not self._entries:
            raise LoadError(f"there are no weights (*.safetensors) in `{folder}`")

    def tensor(self, name: str) -> Floats:
        """See `Checkpoint.tensor`."""
        found = self._entries.get(name)
        if found is None:
            raise LoadError(f"`{self._folder}` has no tensor `{name}`")
        path, entry, begins = found
        dtype = _DTYPES.get(entry["dtype"])
        if dtype is None:
            raise LoadError(f"tensor `{name}` is a `{entry['dtype']}`", hint="F32, F16 or BF16")
        first, last = entry["data_offsets"]
        with path.open("rb") as file:
            file.seek(begins + first)
            raw: NDArray[Any] = np.frombuffer(file.read(last - first), dtype)
        values = from_bfloat16(raw) if dtype is np.uint16 else raw.astype(np.float32)
        return values.reshape(entry["shape"])

    def _read_head(self, path: Path) -> None:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            size = int.from_bytes(whole[:8], "little")
            if size > min(_HEAD_BYTES_MAX, len(whole) - 8):
                raise LoadError(f"`{path}` is no safetensors file")
            head = msgspec.json.decode(whole[8 : 8 + size])
        head.pop("__metadata__", None)
        for name, entry in head.items():
            self._entries[name] = (path, entry, 8 + size)


def _json_of(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise LoadError(f"`{path}` cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise LoadError(f"`{path}` holds no object")
    return found


def _shape_of(config: dict[str, Any], folder: Path) -> DecoderShape:
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        return DecoderShape(
            layers=config["num_hidden_layers"],
            hidden=hidden,
            heads=heads,
            kv_heads=config.get("num_key_value_heads", heads),
            head_size=config.get("head_dim") or hidden // heads,
            inner=config["intermediate_size"],
            vocabulary=config["vocab_size"],
            context=config["max_position_embeddings"],
            rope_base=float(config.get("rope_theta", 10_000.0)),
            norm_epsilon=float(config["rms_norm_eps"]),
        )
    except KeyError as error:
        raise LoadError(f"`{folder}/config.json` does not say what {error} is") from error


def _vocabulary_of(folder: Path, config: dict[str, Any]) -> Vocabulary:
    found = _json_of(folder / "tokenizer.json")
    model = found.get("model", {})
    if model.get("type") != "BPE" or "ByteLevel" not in str(found.get("pre_tokenizer")):
        raise LoadError(
            f"`{folder}/tokenizer.json` is a `{model.get('type')}`",
            hint="byte-level BPE is what can be read here",
        )
    added = {entry["id"]: entry for entry in found.get("added_tokens", ())}
    ids = {index: token for token, index in model["vocab"].items()}
    ids |= {index: entry["content"] for index, entry in added.items()}
    merges = [
        tuple(pair.split(" ", 1)) if isinstance(pair, str) else tuple(pair)
        for pair in model["merges"]
    ]
    ends = config.get("eos_token_id")
    return Vocabulary(
        tokens=tuple([ids.get(index, f"<unused {index}>") for index in range(max(ids) + 1)]),
        merges=tuple([(first, second) for first, second in merges]),
        special=tuple([index for index, entry in sorted(added.items()) if entry.get("special")]),
        ends=tuple(ends if isinstance(ends, list) else [] if ends is None else [ends]),
        cut=_cut_of(found.get("pre_tokenizer") or {}, folder),
    )


def _cut_of(rule: dict[str, Any], folder: Path) -> str:
    """The name of a rule to cut text by."""
    rules = rule.get("pretokenizers", [rule])
    kinds = [each.get("type") for each in rules]
    if kinds == ["ByteLevel"]:
        return "gpt2"
    if kinds == ["Digits", "ByteLevel"] and rules[0].get("individual_digits"):
        return "smollm"
    raise LoadError(
        f"`{folder}/tokenizer.json` cuts text by {kinds}", hint="known: ByteLevel, after Digits"
    )
