"""Saying where a wrong value stands.

Knows `ConfigError`. Never what is being read.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from headway.errors import ConfigError

__all__ = ["located"]


@contextmanager
def located(where: str) -> Iterator[None]:
    """Turn what is wrong with a value inside into a `ConfigError` whose path is `where`."""
    try:
        yield
    except (ValueError, msgspec.DecodeError) as error:
        raise ConfigError(f"`{where}`: {error}", path=where) from error
