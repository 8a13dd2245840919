"""Files for magika: in as bytes, out as a content type.

Knows how magika 1.0.3 samples a file and names its answers. Never opens a file by itself: bytes in.
"""

import json
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.demo.arrays import Array, Arrays, Floats

__all__ = ["FileTypeConfig", "FileTypeGuess", "encode_files", "guess_types", "invent_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTypeConfig:
    """What the model's own configuration file says."""

    head_bytes: int
    tail_bytes: int
    block_bytes: int
    padding_token: int
    labels: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> "FileTypeConfig":
        """Reads the configuration that ships with the model."""
        stored = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            head_bytes=stored["beg_size"],
            tail_bytes=stored["end_size"],
            block_bytes=stored["block_size"],
            padding_token=stored["padding_token"],
            labels=tuple(stored["target_labels_space"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTypeGuess:
    """The most probable content type."""

    label: str
    score: float


def encode_files(config: FileTypeConfig, contents: Sequence[bytes]) -> Arrays:
    """The sampled bytes of each file: (batch, 2048) int32."""
    return {"bytes": np.stack([_sample(config, content) for content in contents])}


def guess_types(config: FileTypeConfig, scores: Floats) -> list[FileTypeGuess]:
    """The best label of each row of scores: (batch, label) float32."""
    best = scores.argmax(axis=1)
    return [
        FileTypeGuess(label=config.labels[column], score=float(row[column]))
        for row, column in zip(scores, best, strict=True)
    ]


def _sample(config: FileTypeConfig, content: bytes) -> Array:
    """Head and tail without outer white space, each padded on its inner side: (2048,) int32."""
    features = np.full(config.head_bytes + config.tail_bytes, config.padding_token, np.int32)
    head = content[: config.block_bytes].lstrip()[: config.head_bytes]
    tail = content[-config.block_bytes :].rstrip()[-config.tail_bytes :]
    features[: len(head)] = np.frombuffer(head, np.uint8)
    features[len(features) - len(tail) :] = np.frombuffer(tail, np.uint8)
    return features


def invent_file(chance: random.Random) -> bytes:
    """A short source file of a random language, with random names and numbers."""
    template = chance.choice(tuple(_TEMPLATES.values()))
    blocks = [_fill(template, chance) for _ in range(chance.randint(1, 12))]
    return "\n".join(blocks).encode()


def _fill(template: str, chance: random.Random) -> str:
    words = {f"w{n}": "".join(chance.choices(string.ascii_lowercase, k=6)) for n in range(3)}
    return string.Template(template).substitute(words, n=chance.randint(2, 999))


_TEMPLATES = {
    "python": (
        'import $w0\n\n\ndef $w1($w2: int) -> int:\n    """Adds."""\n'
        "    for i in range($n):\n        $w2 += $w0.count(i)\n    return $w2\n"
    ),
    "rust": (
        "use std::collections::HashMap;\n\npub fn $w0($w1: &mut HashMap<String, u64>) {\n"
        "    let mut $w2 = Vec::with_capacity($n);\n"
        "    for (k, v) in $w1.iter() {\n        $w2.push((k.clone(), *v));\n    }\n}\n"
    ),
    "html": (
        "<!DOCTYPE html>\n<html>\n<head><title>$w0</title></head>\n<body>\n"
        '<h1 id="$w1">$w2</h1>\n<p>There are <b>$n</b> of them.</p>\n</body>\n</html>\n'
    ),
    "javascript": (
        "const $w0 = require('$w1');\n\nmodule.exports = async function $w2(req, res) {\n"
        "  const rows = await $w0.find({ limit: $n });\n"
        "  res.json(rows.map((r) => r.id));\n};\n"
    ),
    "css": ".$w0 > .$w1 {\n  margin: ${n}px auto;\n  color: #3a3a3a;\n}\n#$w2:hover { top: 0; }\n",
}
