"""A decoder of random weights: two layers with grouped heads, a token for each byte and a few more.

It says nothing that means anything, but says it as any model does, in milliseconds: for tests, and
to try a server out where no weights are at hand. The same seed gives the same model.
"""

from typing import Final

import numpy as np

from headway.decoder.shape import DecoderShape
from headway.decoder.tokenizer import Vocabulary, byte_letters
from headway.decoder.weights import Floats
from headway.decoder.words import ChatForm

__all__ = ["TinyCheckpoint"]

_SPECIAL: Final = ("<|end|>", "<|im_start|>", "<|im_end|>")
_MERGES: Final = (
    ("t", "h"), ("th", "e"), ("i", "n"), ("a", "n"), ("an", "d"), ("Ġ", "the"), ("Ġ", "and"),
    ("e", "r"), ("o", "n"), ("o", "r"), ("Ġ", "a"), ("Ġ", "s"),
)  # fmt: skip


class TinyCheckpoint:
    """Made up, see the module.

    Args:
        seed: of the weights.
        layers: how many.
        context: tokens that it takes.
    """

    def __init__(self, seed: int = 0, *, layers: int = 2, context: int = 1_024) -> None:
        self.name = "tiny"
        self.is_tied = True
        self.chat: ChatForm | None = ChatForm(
            before="<|im_start|>{role}\n", after="<|im_end|>\n", opening="<|im_start|>assistant\n"
        )
        merged = [first + second for first, second in _MERGES]
        tokens = (*_SPECIAL, *byte_letters(), *merged)
        self.vocabulary = Vocabulary(
            tokens=tokens, merges=_MERGES, special=(0, 1, 2), ends=(0, 2), cut="gpt2"
        )
        self.shape = DecoderShape(
            layers=layers,
            hidden=64,
            heads=4,
            kv_heads=2,
            head_size=16,
            inner=128,
            vocabulary=len(tokens),
            context=context,
        )
        self._seed = seed

    def tensor(self, name: str) -> Floats:
        """See `Checkpoint.tensor`; a stream of chance for each tensor, so order does not matter."""
        shape = self.shape
        part = name.removesuffix(".weight").rpartition(".")[2]
        sizes = {
            "embed_tokens": (shape.vocabulary, shape.hidden),
            "q_proj": (shape.query_size, shape.hidden),
            "k_proj": (shape.kv_size, shape.hidden),
            "v_proj": (shape.kv_size, shape.hidden),
            "o_proj": (shape.hidden, shape.query_size),
            "gate_proj": (shape.inner, shape.hidden),
            "up_proj": (shape.inner, shape.hidden),
            "down_proj": (shape.hidden, shape.inner),
        }.get(part)
        if sizes is None:
            return np.ones(shape.hidden, np.float32)
        chance = np.random.default_rng([self._seed, *name.encode()])
        scale = 2.0 if part in ("q_proj", "k_proj") else 1.0
        return chance.normal(0.0, scale / np.sqrt(sizes[1]), sizes).astype(np.float32)
