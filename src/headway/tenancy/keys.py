"""Keys: made once, shown once, kept as a hash.

A key has 256 bits of chance, so nobody can find it from its hash by trying; a slow hash, as for
passwords that people think up, would only make every request slow. The hash is what is looked up,
so how long a look-up takes tells nothing of the keys that there are.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from secrets import token_bytes
from typing import Final, Generic, TypeVar

from msgspec import Struct

from headway.errors import NotAuthenticatedError

__all__ = ["KEY_FORM", "KeyParams", "KeyRing", "hash_of", "is_key_hash", "new_key"]

Owner = TypeVar("Owner")

_PREFIX: Final = "hwk_"
"""By which a key that leaked is recognised, by people and by scanners of repositories."""
KEY_FORM: Final = re.compile(rf"{_PREFIX}[\w-]+")
"""By which a key is found in a text."""
_KEY_BYTES: Final = 32
_KEY_HINT: Final = "send `authorization: Bearer KEY`"
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")


def new_key() -> str:
    """A key that nobody has had before."""
    return _PREFIX + urlsafe_b64encode(token_bytes(_KEY_BYTES)).rstrip(b"=").decode()


def hash_of(key: str) -> str:
    """What is kept of a key, `sha256:` and 64 hexadecimal digits."""
    return "sha256:" + sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def is_key_hash(text: str) -> bool:
    """Whether a text is what `hash_of` gives."""
    return _HASH.fullmatch(text) is not None


class KeyParams(Struct, frozen=True, kw_only=True):
    """A key by its hash."""

    key_hash: str
    """As `hash_of` gives it."""
    expires_at_unix_ns: int | None = None
    """From then on it is refused; None for never."""


class KeyRing(Generic[Owner]):
    """Whose a key is.

    Args:
        owners: each with its keys.
    """

    def __init__(self, owners: Iterable[tuple[Owner, Sequence[KeyParams]]]) -> None:
        self._by_hash = {
            key.key_hash: (owner, key.expires_at_unix_ns) for owner, keys in owners for key in keys
        }
        self._recent: dict[str, tuple[Owner, int | None]] = {}
        """Keys that were found, by themselves: a hash of each request's is more than all the rest
        of looking it up. They are in this process anyway, in the requests that bring them."""

    def __len__(self) -> int:
        return len(self._by_hash)

    def owner_of(self, credential: str, unix_ns: int) -> Owner:
        """Whose a key is that a client sent.

        Raises:
            NotAuthenticatedError: there is none, or it is nobody's, or it has expired.
        """
        if not credential:
            raise NotAuthenticatedError("the request has no key", hint=_KEY_HINT)
        found = self._recent.get(credential) or self._look_up(credential)
        owner, expires_at_unix_ns = found
        if expires_at_unix_ns is not None and unix_ns >= expires_at_unix_ns:
            raise NotAuthenticatedError("the request's key has expired", hint="ask for another")
        return owner

    def _look_up(self, credential: str) -> tuple[Owner, int | None]:
        found = self._by_hash.get(hash_of(credential))
        if found is None:
            raise NotAuthenticatedError(
                "the request's key is nobody's", hint="check it, or ask for another"
            )
        self._recent[credential] = found  # as many as there are keys, and no more
        return found
