"""Keys: made once, kept as hashes, found by them."""

import pytest

from headway.errors import NotAuthenticatedError
from headway.tenancy import KeyParams, KeyRing, hash_of, is_key_hash, new_key

OLD, NEW = "hwk_old", "hwk_new"


def a_ring(**expiries):
    """Two keys of one owner, and one of another."""
    keys = [
        KeyParams(key_hash=hash_of(key), expires_at_unix_ns=expiries.get(key)) for key in (OLD, NEW)
    ]
    return KeyRing([("acme", keys), ("other", [KeyParams(key_hash=hash_of("hwk_third"))])])


def test_new_key_is_new_and_is_not_in_its_hash():
    """Two keys differ, and nothing of a key can be read in what is kept of it."""
    first, second = new_key(), new_key()
    assert first != second
    assert len(first) == len("hwk_") + 43
    assert is_key_hash(hash_of(first))
    assert first.removeprefix("hwk_") not in hash_of(first)


@pytest.mark.parametrize("text", ["", "sha256:", "sha256:" + "0" * 63, "md5:" + "0" * 64, "hwk_x"])
def test_what_is_no_hash_is_seen(text):
    """A key that is written where its hash should be is not taken for one."""
    assert not is_key_hash(text)


@pytest.mark.parametrize("key", [OLD, NEW])
def test_each_of_several_keys_names_their_owner(key):
    """A key can be handed out before the one that it replaces is taken back."""
    assert a_ring().owner_of(key, 0) == "acme"


@pytest.mark.parametrize(
    ("key", "message"),
    [("", "has no key"), ("hwk_else", "is nobody's"), (hash_of(OLD), "is nobody's")],
)
def test_without_a_key_that_is_known_nobody_is_found(key, message):
    """No key, another key, and the hash itself, which whoever reads the file knows."""
    with pytest.raises(NotAuthenticatedError, match=message):
        a_ring().owner_of(key, 0)


def test_expired_key_is_refused_from_its_instant_on():
    """One instant before it is good, and the other key stays so."""
    ring = a_ring(**{OLD: 1000})
    assert ring.owner_of(OLD, 999) == "acme"
    with pytest.raises(NotAuthenticatedError, match="has expired"):
        ring.owner_of(OLD, 1000)
    assert ring.owner_of(NEW, 1000) == "acme"
