"""Text to tokens and back: byte-pair encoding over bytes, as GPT-2 began it and most do it since.

Text is cut into words, each word's bytes become letters of an alphabet of 256, and the neighbours
that were found most often in training are merged first. How text is cut is a part of the model:
`gpt2` is the original, `smollm` has every digit stand alone.

Decoding goes by bytes, as a letter may be spread over several tokens: `Detokenizer` gives text as
soon as it is whole.

Knows text and numbers. Refuses to know models.
"""

import codecs
import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from unicodedata import category

from msgspec import Struct, field

from headway.decoder.words import Piece
from headway.errors import LoadError

__all__ = ["CUTS", "Detokenizer", "Tokenizer", "Vocabulary", "byte_letters"]

CUTS: Final = ("gpt2", "smollm")
_BYTES_MISSING_MAX: Final = 64
"""Bytes that training never met, as those that UTF-8 has no use for; texts go without them."""
_WORDS_KEPT_MAX: Final = 1 << 16
_WORD_KEPT_CHARS_MAX: Final = 64
# On a text in which each letter, number, space and other sign beyond ASCII has been replaced by one
# of ASCII of the same kind; none of those is one that a contraction is made of.
_WORD: Final = re.compile(
    r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII
)
_DIGITS_APART: Final = re.compile(r"[0-9]|[^0-9]+", re.ASCII)


class Vocabulary(Struct, frozen=True, kw_only=True):
    """The tokens of a model, in letters of the byte alphabet.

    Raises:
        LoadError: a cut that is not known here, or bytes that no token stands for.
    """

    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    """The pair to merge first comes first."""
    special: tuple[int, ...] = ()
    """Tokens that no text is encoded to, but by their names where that is asked for."""
    ends: tuple[int, ...] = ()
    """Tokens that end an answer."""
    begins: int | None = None
    """The token that every prompt begins with."""
    cut: str = "gpt2"
    name: str = field(default="byte-level")

    def __post_init__(self) -> None:
        if self.cut not in CUTS:
            raise LoadError(
                f"text is cut by `{self.cut}` for this model, which is not known here",
                hint=f"known: {', '.join(CUTS)}",
            )
        missing = set(byte_letters()) - set(self.tokens)
        if len(missing) > _BYTES_MISSING_MAX:
            raise LoadError(
                f"no token stands for `{len(missing)}` of the 256 bytes",
                hint="byte-level BPE is what can be read here",
            )


def byte_letters() -> tuple[str, ...]:
    """The alphabet: a printable letter for each byte, in order of bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    own, letters = set(printable), []
    shifted = 0
    for byte in range(256):
        if byte in own:
            letters.append(chr(byte))
        else:
            letters.append(chr(256 + shifted))
            shifted += 1
    return tuple(letters)


class _Kinds(dict[int, str]):
    """What a letter beyond ASCII is replaced by before text is cut; filled as letters are met."""

    def __missing__(self, point: int) -> str:
        letter = chr(point)
        if point < 128:
            kind = letter
        elif letter.isspace():
            kind = "\t"
        else:
            kind = {"L": "z", "N": "0"}.get(category(letter)[0], "!")
        self[point] = kind
        return kind


class Tokenizer:
    """Encodes and decodes.

    Invariants: decoding what text was encoded to gives its bytes back, but those that no token
    stands for; words kept are bounded.
    Cost: O(n log n) for a word of n bytes, O(1) for one that was met before.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        letters = byte_letters()
        self._letter_of = dict(enumerate(letters))
        byte_of = {letter: byte for byte, letter in enumerate(letters)}
        self._ids = {token: index for index, token in enumerate(vocabulary.tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(vocabulary.merges)}
        special = set(vocabulary.special)
        self._special = {vocabulary.tokens[index]: index for index in vocabulary.special}
        self._bytes = [
            b"" if index in special else _bytes_of(token, byte_of)
            for index, token in enumerate(vocabulary.tokens)
        ]
        names = sorted(self._special, key=len, reverse=True)
        self._named = re.compile("|".join(re.escape(name) for name in names)) if names else None
        self._kinds = _Kinds()
        self._kept: dict[str, tuple[int, ...]] = {}

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.vocabulary.tokens)

    def encode(self, text: str) -> list[int]:
        """Text, in which nothing is special."""
        ids: list[int] = []
        for word in self._words(text):
            ids += self._encode_word(word)
        return ids

    def encode_pieces(self, pieces: Iterable[Piece]) -> list[int]:
        """A prompt, with the token that every prompt begins with."""
        ids: list[int] = []
        begins = self.vocabulary.begins
        if begins is not None:
            ids.append(begins)
        for piece in pieces:
            if not piece.is_special or self._named is None:
                ids += self.encode(piece.text)
                continue
            at = 0
            for found in self._named.finditer(piece.text):
                ids += self.encode(piece.text[at : found.start()])
                ids.append(self._special[found.group()])
                at = found.end()
            ids += self.encode(piece.text[at:])
        return ids

    def bytes_of(self, token: int) -> bytes:
        """What a token stands for; nothing for special ones."""
        return self._bytes[token]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text; what is no text is replaced."""
        return b"".join([self._bytes[token] for token in tokens]).decode(errors="replace")

    def _words(self, text: str) -> Iterator[str]:
        shown = text.translate(self._kinds)
        if self.vocabulary.cut == "gpt2":
            for found in _WORD.finditer(shown):
                yield text[found.start() : found.end()]
            return
        for part in _DIGITS_APART.finditer(shown):
            for found in _WORD.finditer(shown, part.start(), part.end()):
                yield text[found.start() : found.end()]

    def _encode_word(self, word: str) -> tuple[int, ...]:
        kept = self._kept.get(word)
        if kept is None:
            raw = word.encode("utf-8", "surrogatepass")
            letters = [self._letter_of[byte] for byte in raw]
            parts = _merged(letters, self._ranks)
            kept = tuple([self._ids[part] for part in parts if part in self._ids])
            if len(word) <= _WORD_KEPT_CHARS_MAX:
                if len(self._kept) >= _WORDS_KEPT_MAX:
                    self._kept.clear()
                self._kept[word] = kept
        return kept


class Detokenizer:
    """Tokens to text as they come; a letter that is not whole yet waits for its rest."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token: int) -> str:
        """The text that is whole by it."""
        return self._decoder.decode(self._tokenizer.bytes_of(token))

    def finish(self) -> str:
        """What is left, with what is no letter replaced."""
        return self._decoder.decode(b"", final=True)


def _bytes_of(token: str, byte_of: dict[str, int]) -> bytes:
    """A token's bytes; one with letters that are none of the alphabet is taken as text."""
    try:
        return bytes([byte_of[letter] for letter in token])
    except KeyError:
        return token.encode()


def _merged(letters: list[str], ranks: dict[tuple[str, str], int]) -> list[str]:
    """Merge neighbours, the pair of the lowest rank first, the leftmost of equals."""
    after = [*range(1, len(letters)), -1]
    before = list(range(-1, len(letters) - 1))
    parts: list[str | None] = list(letters)
    heap: list[tuple[int, int, str, str]] = []

    def offer(left: int) -> None:
        right = after[left]
        first, second = parts[left], parts[right]
        if right >= 0 and first is not None and second is not None:
            rank = ranks.get((first, second))
            if rank is not None:
                heapq.heappush(heap, (rank, left, first, second))

    for index in range(len(letters) - 1):
        offer(index)
    while heap:
        _, left, first, second = heapq.heappop(heap)
        right = after[left]
        if right < 0 or parts[left] != first or parts[right] != second:
            continue  # one of the two has been merged with another meanwhile
        parts[left], parts[right] = first + second, None
        after[left] = after[right]
        if after[right] >= 0:
            before[after[right]] = left
        if before[left] >= 0:
            offer(before[left])
        offer(left)
    return [part for part in parts if part is not None]
