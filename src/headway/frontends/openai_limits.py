"""What is left of a tenant's rates, in the headers that OpenAI's clients look for.

`x-ratelimit-limit-requests`, `-remaining-requests`, `-reset-requests`, and the same of tokens: a
second's worth, what is left of it with what was saved up, and when all of it will be there again.
Tokens of an answer are paid for when it has ended: they are in the headers of the next one.
"""

from collections.abc import Iterable
from typing import Final

from headway.frontends.rest_errors import Headers
from headway.tenancy import LimitState
from headway.units import NS_PER_MS

__all__ = ["limit_headers"]

_SHOWN: Final = ("requests", "tokens")


def limit_headers(limits: Iterable[LimitState]) -> Headers:
    """Three headers for each rate that there is."""
    headers: list[tuple[bytes, bytes]] = []
    for state in limits:
        if state.name not in _SHOWN:
            continue
        name = state.name.encode()
        reset_ms = -(-state.resets_ns // NS_PER_MS)
        headers += [
            (b"x-ratelimit-limit-" + name, b"%g" % state.limit),
            (b"x-ratelimit-remaining-" + name, b"%d" % max(0, int(state.remaining))),
            (b"x-ratelimit-reset-" + name, b"%dms" % reset_ms),
        ]
    return headers
