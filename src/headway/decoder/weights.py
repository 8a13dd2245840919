"""Where weights come from, whatever the file: tensors by the names that the Llama family uses.

Knows names and arrays. Refuses to know the graph that they go into.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.decoder.shape import DecoderShape
from headway.decoder.tokenizer import Vocabulary
from headway.decoder.words import ChatForm

__all__ = ["Checkpoint", "Floats", "from_bfloat16"]

Floats = NDArray[np.float32]


class Checkpoint(Protocol):
    """A model as somebody published it."""

    name: str
    shape: DecoderShape
    vocabulary: Vocabulary
    chat: ChatForm | None
    """How a conversation is written; None for a model that was not taught any."""
    is_tied: bool
    """The matrix that gives logits is that of the embeddings."""

    def tensor(self, name: str) -> Floats:
        """One tensor, by its name as in `model.layers.0.self_attn.q_proj.weight`; (out, in).

        Raises:
            LoadError: it is not there, or of a type that cannot be read.
        """


def from_bfloat16(raw: NDArray[Any]) -> Floats:
    """The upper halves of floats, as integers of two bytes; any shape."""
    return (raw.astype(np.uint32) << 16).view(np.float32)
