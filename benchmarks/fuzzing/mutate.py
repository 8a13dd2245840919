"""Valid requests made wrong by a seed: JSON by tokens, protobuf by fields, the rest by bytes.

A change to a token leaves the text around it whole, so that what is wrong is met deep inside a
decoder and not at its first byte. Every mutator takes the `random.Random` of one input, so that any
input can be made again by its number alone.

Knows the shapes of texts. Refuses to know what a request means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

__all__ = ["Field", "fields_of", "message_of", "mutate_bytes", "mutate_json", "mutate_message"]

TOKEN = re.compile(
    rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[\[\]{},:]|true|false|null|[^\s]'
)
SIZE_MAX = 512 << 10
"""Bytes of an input; a longer one is cut, which is one more way to be wrong."""
DEEP = 600
"""Beyond what any decoder may recurse."""
_ODD_WORDS = (
    b"-1 0 1 2 3 -0 1.5 -2.5e-7 1e999 -1e999 1e-400 255 256 65504 65520 2147483647 2147483648 "
    b"4294967296 9007199254740993 9223372036854775807 9223372036854775808 18446744073709551615 "
    b"18446744073709551616 true false null NaN Infinity 01 +1 .5 1. [] {} [[]] [{}] "
    b'"" "0" "FP32" "BF16" "FP16" "BYTES" "INT64" "BOOL" "UINT8" "x" "INPUT" "data" "shape" "name" '
    b'"datatype" "parameters" "inputs" "outputs" "id" "priority" "timeout" "binary_data_size" '
    b'"binary_data" "binary_data_output" "classification" "shared_memory_region" "config" "ready" '
    b'"shared_memory_byte_size" "shared_memory_offset" "sequence_id" "headers" "key" "byte_size" '
    b'"offset" "path" "batch" "options" "version" "backend" "file:1/m" "\\ud800" "\\u0000" '
    b'"\\ud83d\\ude00" "\\x" , : [ ] { }'
)
ODD_TOKENS = (
    *_ODD_WORDS.split(b" "),
    b"9" * 400,
    b'"' + b"n" * 5000 + b'"',
    b"[" * DEEP + b"1" + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    '"\u00e9\u4e2d\U0001f600"'.encode(),
    b'"{\\"batch\\":{\\"rows_max\\":0}}"',
)
ODD_BYTES = (b"", b"\x00", b"\xff" * 4, b"\r\n", b"\xef\xbb\xbf", b"\x80" * 11, b"%00", b" " * 300)
ODD_NUMBERS = (0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**70)
CHANGES = (1, 1, 1, 1, 2, 2, 3, 5)
"""How many an input has, one of these."""


# --- bytes ----------------------------------------------------------------------------------------


def mutate_bytes(chance: Random, body: bytes) -> bytes:
    """Some bytes flipped, cut, repeated, moved or put in."""
    for _ in range(chance.choice(CHANGES)):
        body = chance.choice(_BYTE_CHANGES)(chance, body)
    return body[:SIZE_MAX]


def _flip(chance: Random, body: bytes) -> bytes:
    if not body:
        return b"\x00"
    at = chance.randrange(len(body))
    return body[:at] + bytes([body[at] ^ (1 << chance.randrange(8))]) + body[at + 1 :]


def _cut(chance: Random, body: bytes) -> bytes:
    return body[: chance.randint(0, len(body))]


def _drop(chance: Random, body: bytes) -> bytes:
    at, size = _span(chance, len(body))
    return body[:at] + body[at + size :]


def _repeat(chance: Random, body: bytes) -> bytes:
    at, size = _span(chance, len(body))
    return body[:at] + body[at : at + size] * chance.choice((2, 2, 3, 40)) + body[at + size :]


def _put_in(chance: Random, body: bytes) -> bytes:
    at = chance.randint(0, len(body))
    return body[:at] + chance.choice(ODD_BYTES) + body[at:]


def _noise(chance: Random, body: bytes) -> bytes:
    at, size = _span(chance, len(body))
    return body[:at] + chance.randbytes(size) + body[at + size :]


_BYTE_CHANGES = (_flip, _flip, _cut, _drop, _repeat, _put_in, _noise)


def _span(chance: Random, size: int) -> tuple[int, int]:
    at = chance.randint(0, size)
    return at, chance.randint(0, min(64, size - at))


# --- JSON -----------------------------------------------------------------------------------------


def mutate_json(chance: Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Some tokens replaced, dropped, repeated, exchanged, or taken from another text."""
    tokens = TOKEN.findall(text)
    for _ in range(chance.choice(CHANGES)):
        if not tokens:
            break
        chance.choice(_TOKEN_CHANGES)(chance, tokens, others)
    mutated = b"".join(tokens)
    if chance.random() < 0.15:
        mutated = mutate_bytes(chance, mutated)
    return mutated[:SIZE_MAX]


Tokens = list[bytes]


def _replace_token(chance: Random, tokens: Tokens, _: Sequence[bytes]) -> None:
    at = chance.randrange(len(tokens))
    if tokens[at] not in b"[]{},:" or chance.random() < 0.1:
        tokens[at] = chance.choice(ODD_TOKENS)


def _replace_value(chance: Random, tokens: Tokens, _: Sequence[bytes]) -> None:
    """What stands behind a colon, whole."""
    colons = [at for at, token in enumerate(tokens) if token == b":"]
    if colons:
        start = chance.choice(colons) + 1
        tokens[start : _end_of(tokens, start)] = [chance.choice(ODD_TOKENS)]


def _drop_member(chance: Random, tokens: Tokens, _: Sequence[bytes]) -> None:
    commas = [at for at, token in enumerate(tokens) if token == b","]
    if commas:
        at = chance.choice(commas)
        end = _end_of(tokens, at + 1)
        if tokens[end : end + 1] == [b":"]:
            end = _end_of(tokens, end + 1)
        del tokens[at:end]


def _repeat_element(chance: Random, tokens: Tokens, _: Sequence[bytes]) -> None:
    """An element of a list again and again; seldom so often that a slow decoder shows."""
    lists = [at for at, token in enumerate(tokens) if token == b"[" and at + 1 < len(tokens)]
    if lists:
        start = chance.choice(lists) + 1
        element = tokens[start : _end_of(tokens, start)]
        count = chance.choice((1, 2, 5, 40, 40, 400))
        if len(element) * count < 20_000:
            tokens[start:start] = [*element, b","] * count


def _add_member(chance: Random, tokens: Tokens, _: Sequence[bytes]) -> None:
    objects = [at for at, token in enumerate(tokens) if token == b"{"]
    if objects:
        at = chance.choice(objects) + 1
        pair = [chance.choice(ODD_TOKENS), b":", chance.choice(ODD_TOKENS), b","]
        tokens[at:at] = pair


def _exchange(chance: Random, tokens: Tokens, _: Sequence[bytes]) -> None:
    a, b = chance.randrange(len(tokens)), chance.randrange(len(tokens))
    tokens[a], tokens[b] = tokens[b], tokens[a]


def _drop_tokens(chance: Random, tokens: Tokens, _: Sequence[bytes]) -> None:
    at = chance.randrange(len(tokens))
    del tokens[at : at + chance.randint(1, 3)]


def _splice(chance: Random, tokens: Tokens, others: Sequence[bytes]) -> None:
    other = TOKEN.findall(chance.choice(others)[:4096])
    if other:
        start, at = chance.randrange(len(other)), chance.randint(0, len(tokens))
        tokens[at : at + chance.randint(0, 4)] = other[start : start + chance.randint(1, 12)]


_TOKEN_CHANGES: Sequence[Callable[[Random, Tokens, Sequence[bytes]], None]] = (
    _replace_token,
    _replace_token,
    _replace_value,
    _replace_value,
    _replace_value,
    _drop_member,
    _repeat_element,
    _add_member,
    _exchange,
    _drop_tokens,
    _splice,
)


def _end_of(tokens: Tokens, start: int) -> int:
    """Just behind the value that starts there."""
    depth = 0
    for at in range(start, len(tokens)):
        depth += (tokens[at] in (b"[", b"{")) - (tokens[at] in (b"]", b"}"))
        if depth <= 0:
            return at + 1
    return len(tokens)


# --- protobuf -------------------------------------------------------------------------------------


class Field:
    """A field of a message as its wire has it; a value of its own fields is a list of them."""

    __slots__ = ("number", "value", "wire")

    def __init__(self, number: int, wire: int, value: int | bytes | list[Field]) -> None:
        self.number, self.wire, self.value = number, wire, value

    def copy(self) -> Field:
        """One that may be changed."""
        value = self.value
        if isinstance(value, list):
            value = [field.copy() for field in value]
        return Field(self.number, self.wire, value)


def fields_of(message: bytes, depth: int = 6) -> list[Field] | None:
    """The fields of a message, those within them too; None for what is no message."""
    fields, at = [], 0
    try:
        while at < len(message):
            key, at = _varint_at(message, at)
            number, wire = key >> 3, key & 7
            value: int | bytes | list[Field]
            if wire == 0:
                value, at = _varint_at(message, at)
            elif wire == 2:
                size, at = _varint_at(message, at)
                value, at = message[at : at + size], at + size
                inner = fields_of(value, depth - 1) if value and depth else None
                value = value if inner is None else inner
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                value, at = message[at : at + size], at + size
            else:
                return None
            if not number or at > len(message):
                return None
            fields.append(Field(number, wire, value))
    except IndexError:
        return None
    return fields


def message_of(fields: Sequence[Field]) -> bytes:
    """The message of some fields."""
    parts = []
    for field in fields:
        value = field.value
        parts.append(_varint(field.number << 3 | field.wire))
        if isinstance(value, int):
            parts.append(_varint(value))
            continue
        body = message_of(value) if isinstance(value, list) else value
        if field.wire == 2:
            parts.append(_varint(len(body)))
        parts.append(body)
    return b"".join(parts)


def mutate_message(
    chance: Random, seed: Sequence[Field], others: Sequence[Sequence[Field]]
) -> bytes:
    """Some fields changed, dropped, repeated, moved elsewhere, or taken from another message."""
    fields = [field.copy() for field in seed]
    for _ in range(chance.choice(CHANGES)):
        level = _level_of(chance, fields)
        chance.choice(_FIELD_CHANGES)(chance, level, others)
    message = message_of(fields)
    if chance.random() < 0.2:
        message = mutate_bytes(chance, message)
    return message[:SIZE_MAX]


def _level_of(chance: Random, fields: list[Field]) -> list[Field]:
    """A list of fields, at any depth."""
    while True:
        inner = [field.value for field in fields if isinstance(field.value, list)]
        if not inner or chance.random() < 0.35:
            return fields
        fields = chance.choice(inner)


Fields = list[Field]


def _change_value(chance: Random, fields: Fields, _: object) -> None:
    if not fields:
        return
    field = chance.choice(fields)
    if isinstance(field.value, int):
        field.value = chance.choice(ODD_NUMBERS)
        return
    body = message_of(field.value) if isinstance(field.value, list) else field.value
    if field.wire == 2 and chance.random() < 0.4:
        odd = chance.choice(ODD_TOKENS)
        field.value = odd[1:-1] if odd[:1] == b'"' else odd
    else:
        field.value = mutate_bytes(chance, body)


def _change_key(chance: Random, fields: Fields, _: object) -> None:
    if fields:
        field = chance.choice(fields)
        if chance.random() < 0.6:
            field.number = chance.choice((1, 2, 3, 4, 5, 6, 7, 8, 15, 2**29 - 1))
        else:
            field.wire = chance.randrange(8)


def _drop_field(chance: Random, fields: Fields, _: object) -> None:
    if fields:
        del fields[chance.randrange(len(fields))]


def _repeat_field(chance: Random, fields: Fields, _: object) -> None:
    if fields:
        field = chance.choice(fields)
        size = len(message_of([field]))
        count = min(chance.choice((1, 2, 30, 30, 2000)), SIZE_MAX // (size + 1))
        fields.extend(field.copy() for _ in range(count))


def _move_field(chance: Random, fields: Fields, _: object) -> None:
    chance.shuffle(fields)


def _wrap(chance: Random, fields: Fields, _: object) -> None:
    """A message in itself, over and over."""
    inner: list[Field] = [field.copy() for field in fields]
    number = chance.randint(1, 7)
    for _ in range(chance.choice((1, 5, 120))):
        inner = [Field(number, 2, inner)]
    if len(inner) < 64:
        fields.extend(inner)


def _take(chance: Random, fields: Fields, others: Sequence[Sequence[Field]]) -> None:
    other = [field.copy() for field in chance.choice(others)]
    level = _level_of(chance, other)
    if level:
        fields.insert(chance.randint(0, len(fields)), chance.choice(level))


_FIELD_CHANGES: Sequence[Callable[[Random, Fields, Sequence[Sequence[Field]]], None]] = (
    _change_value,
    _change_value,
    _change_value,
    _change_key,
    _drop_field,
    _repeat_field,
    _move_field,
    _wrap,
    _take,
)


def _varint_at(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
