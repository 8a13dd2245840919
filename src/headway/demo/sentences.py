"""Sentences for MiniLM: in as token ids, out as vectors.

Knows padding lengths and how to make sentences up. Never how words are cut: `wordpiece` does.
"""

import random
from collections.abc import Sequence

import numpy as np

from headway.demo.arrays import Arrays, Floats
from headway.demo.wordpiece import WordPiece

__all__ = ["TOKEN_BUCKETS", "encode_sentences", "invent_sentence", "similarity"]

TOKEN_BUCKETS = (16, 32, 64, 128)
"""Lengths to pad to, in tokens; longer text is cut."""

_SUBJECTS = ("the cat", "a young engineer", "our neighbour", "the old bridge", "this train")
_VERBS = ("waits for", "looks at", "repairs", "remembers", "writes about", "passes")
_OBJECTS = ("the harbour", "a red bicycle", "the morning news", "an empty station", "the garden")
_TAILS = (
    "in the rain",
    "before the shops open",
    "although nobody had asked for it",
    "while the radio plays an old song about the sea",
    "because the forecast promised a quiet week",
)


def encode_sentences(tokenizer: WordPiece, sentences: Sequence[str]) -> Arrays:
    """Token ids and mask, each (batch, token) int64, padded to the shortest bucket that fits."""
    rows = [tokenizer.encode(text, tokens_max=TOKEN_BUCKETS[-1]) for text in sentences]
    longest = max(map(len, rows))
    width = next(bucket for bucket in TOKEN_BUCKETS if bucket >= longest)
    input_ids = np.zeros((len(rows), width), np.int64)
    attention_mask = np.zeros_like(input_ids)
    for index, row in enumerate(rows):
        input_ids[index, : len(row)] = row
        attention_mask[index, : len(row)] = 1
    return {"input_ids": input_ids, "attention_mask": attention_mask}


def similarity(left: Floats, right: Floats) -> float:
    """The cosine between two vectors of length one: (384,) float32 each."""
    return float(np.dot(left, right))


def invent_sentence(chance: random.Random) -> str:
    """One to four clauses, hence some 8 to 60 tokens."""
    clauses = (
        " ".join(map(chance.choice, (_SUBJECTS, _VERBS, _OBJECTS, _TAILS)))
        for _ in range(chance.choice((1, 1, 2, 4)))
    )
    return ", and ".join(clauses).capitalize() + "."
