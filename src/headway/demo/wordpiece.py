"""The word-piece tokenizer of MiniLM.

Knows BERT's uncased rules and a vocabulary. Never a model's weights.

Written here because the usual library weighs more than the model's code and brings a download
client along; the rules are few, and the tests hold results of that library.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["WordPiece"]

CLASSIFY, SEPARATE, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
WORD_CHARS_MAX = 100

_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Turns text into token ids.

    Invariants: every result starts with [CLS] and ends with [SEP].
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._vocabulary = vocabulary

    @classmethod
    def read(cls, path: Path) -> "WordPiece":
        """Reads a vocabulary: one piece a line, its id being the line's number from 0."""
        pieces = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        return cls({piece: index for index, piece in enumerate(pieces)})

    def encode(self, text: str, *, tokens_max: int) -> list[int]:
        """The ids of a text, cut so that there are at most `tokens_max` with both marks."""
        ids = [piece for word in _words(text) for piece in self._pieces(word)]
        marks = self._vocabulary[CLASSIFY], self._vocabulary[SEPARATE]
        return [marks[0], *ids[: tokens_max - len(marks)], marks[1]]

    def _pieces(self, word: str) -> list[int]:
        """Cuts a word greedily, each time taking the longest piece that is known."""
        unknown = [self._vocabulary[UNKNOWN]]
        if len(word) > WORD_CHARS_MAX:
            return unknown
        ids: list[int] = []
        start = 0
        while start < len(word):
            end = self._longest(word, start)
            if end is None:
                return unknown
            ids.append(self._vocabulary[_piece(word, start, end)])
            start = end
        return ids

    def _longest(self, word: str, start: int) -> int | None:
        ends = range(len(word), start, -1)
        return next((end for end in ends if _piece(word, start, end) in self._vocabulary), None)


def _piece(word: str, start: int, end: int) -> str:
    return word[start:end] if start == 0 else f"##{word[start:end]}"


def _words(text: str) -> Iterator[str]:
    """Words, and every mark of punctuation and ideograph by itself; lower case, no accents."""
    word = ""
    for char in _plain(text):
        if char.isspace() or _stands_alone(char):
            if word:
                yield word
            word = ""
            if not char.isspace():
                yield char
        else:
            word += char
    if word:
        yield word


def _plain(text: str) -> str:
    kept = "".join(" " if char in "\t\n\r" else char for char in text if not _is_control(char))
    decomposed = unicodedata.normalize("NFD", kept)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn").lower()


def _is_control(char: str) -> bool:
    if char in "\t\n\r":
        return False
    return char in "\0\ufffd" or unicodedata.category(char) in {"Cc", "Cf", "Cn", "Co", "Cs"}


def _stands_alone(char: str) -> bool:
    is_ascii_mark = char.isascii() and not char.isalnum() and char.isprintable() and char != " "
    return is_ascii_mark or unicodedata.category(char).startswith("P") or _is_ideograph(char)


def _is_ideograph(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in _IDEOGRAPHS)
