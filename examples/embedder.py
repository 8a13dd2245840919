"""A sentence embedder that needs no weights: words and their parts, hashed into a vector.

Texts that share words, or parts of words, lie near each other. It knows no meaning: to serve a
trained model, keep the tensors and replace what `infer` does.

    path: examples/embedder.py:Embedder
    options: {dimensions: 256}

Its tensors make it an embedding model for OpenAI's API: texts in, one vector a text out, and with
it the number of tokens, from which `usage` is filled.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

__all__ = ["Embedder"]

PART_CHARS = 3
"""Of the pieces that words are cut into, so that `word` and `words` have some in common."""
PART_WEIGHT = 0.5


class Embedder:
    """`text` to `embedding`, of length one, and `tokens`, the words and marks that it counted."""

    inputs: ClassVar = [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    outputs: list[dict[str, object]]

    def load(self, *, dimensions: int = 256) -> None:
        """Choose how long vectors are. Called once, before any batch."""
        self._dimensions = dimensions
        self.outputs = [
            {"name": "embedding", "datatype": "FP32", "shape": [-1, dimensions]},
            {"name": "tokens", "datatype": "INT32", "shape": [-1]},
        ]

    def infer(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """All texts of the batch at once: those of several requests may be in it."""
        texts = [text.decode() for text in batch["text"]]
        words = [re.findall(r"\w+|[^\w\s]", text.lower()) for text in texts]
        vectors = np.zeros((len(texts), self._dimensions), np.float32)
        for vector, found in zip(vectors, words, strict=True):
            for piece, weight in _pieces(found):
                digest = crc32(piece.encode())
                # One bit of the digest is a sign, so that pieces that meet by chance cancel out.
                vector[(digest >> 1) % self._dimensions] += weight if digest & 1 else -weight
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return {
            "embedding": vectors / np.maximum(lengths, 1e-12),
            "tokens": np.array([len(found) for found in words], np.int32),
        }


def _pieces(words: list[str]) -> Iterator[tuple[str, float]]:
    """Words, and the parts of each, with what they weigh."""
    for word in words:
        yield word, 1.0
        marked = f"<{word}>"
        for start in range(len(marked) - PART_CHARS + 1):
            yield marked[start : start + PART_CHARS], PART_WEIGHT
