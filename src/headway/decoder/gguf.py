"""Reads GGUF files, in which llama.cpp and those around it keep models: metadata, then tensors.

Of the ways to pack weights there are those that need no tables: floats, and blocks of 32 numbers
with a scale (`Q4_0`, `Q8_0`) or a scale and a least value (`Q4_1`). All become float32.

The file stores queries and keys for pairs of neighbouring numbers to be rotated together; models as
they are trained, and the graph that we write, have the two halves of a head rotated: `tensor` puts
them back.

Knows the format. Refuses to know what a graph looks like.
"""

import mmap
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.decoder.shape import DecoderShape
from headway.decoder.tokenizer import Vocabulary
from headway.decoder.weights import Floats, from_bfloat16
from headway.decoder.words import chat_form_of
from headway.errors import LoadError

__all__ = ["GgufCheckpoint"]

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_TEXT: Final = 8
_LIST: Final = 9
_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"} | {
    10: "Q",
    11: "q",
    12: "d",
}
_SPECIAL: Final = 3
"""The kind of tokens that stand for no text."""
_BLOCK: Final = 32
_NAMES: Final = (
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("post_attention_layernorm", "ffn_norm"),
    ("input_layernorm", "attn_norm"),
    ("model.embed_tokens", "token_embd"),
    ("model.layers.", "blk."),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
)


class _Entry(NamedTuple):
    """Where a tensor lies."""

    sizes: tuple[int, ...]
    """As numpy has them: the last axis is contiguous."""
    kind: int
    offset: int


class _Packing(NamedTuple):
    """A way to pack numbers."""

    name: str
    numbers: int
    """In a block."""
    block_bytes: int
    unpack: Callable[[NDArray[np.uint8]], Floats]
    """Blocks (n, block_bytes) to numbers (n, numbers)."""


def _half(raw: NDArray[np.uint8]) -> Floats:
    """Two bytes of each block (n, 2) as a scale (n, 1)."""
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def _nibbles(raw: NDArray[np.uint8]) -> Floats:
    """16 bytes of each block: the low halves are the first 16 numbers, the high ones the rest."""
    return np.concatenate([raw & 15, raw >> 4], axis=1).astype(np.float32)


_PACKINGS: Final[Mapping[int, _Packing]] = MappingProxyType(
    {
        0: _Packing("F32", 1, 4, lambda raw: raw.view(np.float32)),
        1: _Packing("F16", 1, 2, _half),
        2: _Packing("Q4_0", 32, 18, lambda raw: _half(raw[:, :2]) * (_nibbles(raw[:, 2:]) - 8)),
        3: _Packing(
            "Q4_1",
            32,
            20,
            lambda raw: _half(raw[:, :2]) * _nibbles(raw[:, 4:]) + _half(raw[:, 2:4]),
        ),
        8: _Packing(
            "Q8_0",
            32,
            34,
            lambda raw: (
                _half(raw[:, :2])
                * np.ascontiguousarray(raw[:, 2:]).view(np.int8).astype(np.float32)
            ),
        ),
        30: _Packing("BF16", 1, 2, lambda raw: from_bfloat16(raw.view(np.uint16))),
    }
)


class GgufCheckpoint:
    """A model in a GGUF file; tensors are read when they are asked for.

    Raises:
        LoadError: no such file, none of the format, or of a model that is no Llama-like decoder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise LoadError(f"`{path}` cannot be read: {error}") from error
        self._at = 0
        try:
            self._metadata, self._entries = self._read_head()
        except (struct.error, KeyError, UnicodeDecodeError, OverflowError) as error:
            raise LoadError(f"`{path}` is no whole GGUF file: {error}") from error
        family = self._metadata.get("general.architecture")
        if family != "llama":
            raise LoadError(
                f"`{path}` holds a model of the family `{family}`",
                hint="the built-in engine runs decoders of the Llama family",
            )
        self.name = str(self._metadata.get("general.name", path.stem))
        self.shape = self._read_shape()
        self.vocabulary = self._read_vocabulary()
        self.chat = chat_form_of(str(self._metadata.get("tokenizer.chat_template", "")))
        self.is_tied = "output.weight" not in self._entries

    def tensor(self, name: str) -> Floats:
        """See `Checkpoint.tensor`."""
        ours = name
        for theirs, short in _NAMES:
            ours = ours.replace(theirs, short)
        entry = self._entries.get(ours)
        if entry is None:
            raise LoadError(f"`{self._path}` has no tensor `{ours}`")
        packing = _PACKINGS.get(entry.kind)
        if packing is None:
            raise LoadError(
                f"tensor `{ours}` is packed in a way (`{entry.kind}`) that cannot be read here",
                hint="files of the kinds " + ", ".join(each.name for each in _PACKINGS.values()),
            )
        count = int(np.prod(entry.sizes, dtype=np.int64))
        blocks = count // packing.numbers
        raw = np.frombuffer(self._map, np.uint8, blocks * packing.block_bytes, entry.offset)
        values = packing.unpack(raw.reshape(blocks, packing.block_bytes)).reshape(entry.sizes)
        if ours.endswith("attn_q.weight"):
            return _halves_rotated(values, self.shape.heads)
        if ours.endswith("attn_k.weight"):
            return _halves_rotated(values, self.shape.kv_heads)
        return values

    def _read_shape(self) -> DecoderShape:
        def size(key: str, default: int | None = None) -> int:
            value = self._metadata.get(f"llama.{key}", default)
            if not isinstance(value, int):
                raise LoadError(f"`{self._path}` does not say what `llama.{key}` is")
            return value

        if any(key.startswith("llama.rope.scaling") for key in self._metadata):
            raise LoadError(f"`{self._path}` scales positions, which is not known here")
        heads, hidden = size("attention.head_count"), size("embedding_length")
        return DecoderShape(
            layers=size("block_count"),
            hidden=hidden,
            heads=heads,
            kv_heads=size("attention.head_count_kv", heads),
            head_size=size("rope.dimension_count", hidden // heads),
            inner=size("feed_forward_length"),
            vocabulary=len(self._metadata.get("tokenizer.ggml.tokens", ())),
            context=size("context_length"),
            rope_base=float(self._metadata.get("llama.rope.freq_base", 10_000.0)),
            norm_epsilon=float(self._metadata["llama.attention.layer_norm_rms_epsilon"]),
        )

    def _read_vocabulary(self) -> Vocabulary:
        found = {
            key.removeprefix("tokenizer.ggml."): value
            for key, value in self._metadata.items()
            if key.startswith("tokenizer.ggml.")
        }
        if found.get("model") != "gpt2":
            raise LoadError(
                f"`{self._path}` has a tokenizer of the kind `{found.get('model')}`",
                hint="byte-level BPE is what can be read here",
            )
        kinds = found.get("token_type", ())
        ends = {found[key] for key in ("eos_token_id", "eot_token_id") if key in found}
        return Vocabulary(
            tokens=tuple(found["tokens"]),
            merges=tuple([_pair(text) for text in found["merges"]]),
            special=tuple([index for index, kind in enumerate(kinds) if kind == _SPECIAL]),
            ends=tuple(sorted(ends)),
            begins=found.get("bos_token_id") if found.get("add_bos_token") else None,
            cut=found.get("pre", "gpt2"),
        )

    # -- the head of the file ----------------------------------------------------------------------

    def _read_head(self) -> tuple[dict[str, Any], dict[str, _Entry]]:
        magic, version = self._take("4s"), self._take("I")
        if magic != _MAGIC or version not in _VERSIONS:
            raise LoadError(f"`{self._path}` is no GGUF file of a version that is known here")
        tensors, keys = self._take("Q"), self._take("Q")
        metadata = {}
        for _ in range(keys):
            key = self._take_text()
            metadata[key] = self._take_value(self._take("I"))
        found = []
        for _ in range(tensors):
            name = self._take_text()
            sizes = [self._take("Q") for _ in range(self._take("I"))]
            found.append((name, tuple(reversed(sizes)), self._take("I"), self._take("Q")))
        step = metadata.get("general.alignment", 32)
        begins = -(-self._at // step) * step
        entries = {
            name: _Entry(sizes, kind, begins + offset) for name, sizes, kind, offset in found
        }
        return metadata, entries

    def _take(self, form: str) -> Any:
        (value,) = struct.unpack_from("<" + form, self._map, self._at)
        self._at += struct.calcsize("<" + form)
        return value

    def _take_text(self) -> str:
        size = self._take("Q")
        text = self._map[self._at : self._at + size].decode()
        self._at += size
        return text

    def _take_value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self._take_text()
        if kind == _LIST:
            of = self._take("I")
            return [self._take_value(of) for _ in range(self._take("Q"))]
        return self._take(_NUMBERS[kind])


def _pair(text: str) -> tuple[str, str]:
    first, _, second = text.partition(" ")
    return first, second


def _halves_rotated(values: Floats, heads: int) -> Floats:
    """From neighbours that are rotated together to halves that are; rows are a head's numbers."""
    rows, columns = values.shape
    paired = values.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(paired.swapaxes(1, 2).reshape(rows, columns))
