"""Whether to ask again, and when: a conversation with a server as a pure generator.

It yields what is to be done, `Send` or `Pause`, and is told how that ended; the two clients carry
it out, one blocking, one not. Time and chance are arguments. All tries of a call share one budget:
each is told what is left of it, and a pause that would not fit ends the call with the refusal at
once, so that its caller can still do something else.
"""

from collections.abc import Callable, Generator
from random import Random
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from headway.client.answers import Answer
from headway.client.failures import Lost, failure_of, retry_after_ns
from headway.client.questions import Ask, Request
from headway.client.terms import BUDGET, budget_header
from headway.errors import HeadwayError
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["Conversation", "Patience", "Pause", "Retries", "Send", "converse"]

T = TypeVar("T")

_MAY_COME_BACK: Final = frozenset({429, 503})
"""Refused, or nobody there to do it: nothing was computed, or it was lost."""


class Retries(Struct, frozen=True, kw_only=True):
    """How often to ask again, and how long to wait before.

    A wait is what the server says. Where it says nothing it is ``pause_ns_min``, doubled with each
    try up to ``pause_ns_max``. To either a random part is added, so that clients who were refused
    together do not come back together.
    """

    count_max: int = 3
    """Tries after the first."""
    pause_ns_min: int = 20 * NS_PER_MS
    pause_ns_max: int = 2 * NS_PER_S
    jitter_ratio: float = 0.25
    """The largest part of the wait that is added."""

    def pause_ns(self, end: Answer | Lost, tries: int, chance: Random) -> int | None:
        """How long to wait before the next try; None for not to try again.

        Args:
            end: how the last try ended.
            tries: how many there were.
            chance: adds the random part.
        """
        if tries > self.count_max:
            return None
        said_ns = None
        if isinstance(end, Lost):
            if end.timed_out_ns is not None:
                return None  # what was granted is spent
        elif end.status not in _MAY_COME_BACK:
            return None
        else:
            said_ns = retry_after_ns(end)
        if said_ns is None:
            said_ns = min(self.pause_ns_max, self.pause_ns_min << min(tries - 1, 32))
        return said_ns + round(said_ns * self.jitter_ratio * chance.random())


class Patience(Struct, frozen=True, kw_only=True):
    """How long a client waits at all."""

    retries: Retries
    timeout_ns: int
    """Of a call without a budget, all its tries together."""
    grace_ns: int
    """How long after the end of a budget an answer is still waited for."""


class Send(Struct, frozen=True):
    """Send this and tell the answer, or that none came within the timeout."""

    request: Request
    timeout_ns: int


class Pause(Struct, frozen=True):
    """Do nothing for so long."""

    duration_ns: int


Conversation = Generator[Send | Pause, Answer | Lost | None, T]


def converse(
    ask: Ask[T], patience: Patience, chance: Random, now_ns: Callable[[], int]
) -> Conversation[T]:
    """One call, from its first try to its end.

    Raises:
        HeadwayError: it ended without a result.
    """
    try:
        return (yield from _tries(ask, patience, chance, now_ns))
    except HeadwayError as error:
        if ask.instead is None:
            raise
        return ask.instead(error)


def _tries(
    ask: Ask[T], patience: Patience, chance: Random, now_ns: Callable[[], int]
) -> Conversation[T]:
    has_budget = ask.budget_ns is not None
    granted_ns = ask.budget_ns if ask.budget_ns is not None else ask.timeout_ns
    granted_ns = patience.timeout_ns if granted_ns is None else granted_ns
    ends_at_ns = now_ns() + granted_ns
    left_ns, tries = granted_ns, 1
    while True:
        request, timeout_ns = ask.request, left_ns
        if has_budget:
            headers = {**request.headers, BUDGET: budget_header(left_ns)}
            request, timeout_ns = request._replace(headers=headers), left_ns + patience.grace_ns
        end = yield Send(request, timeout_ns)
        assert end is not None, "a `Send` ends with an answer, or with the loss of it"
        if isinstance(end, Answer) and end.is_success:
            return _understood(ask, end._replace(tries=tries))
        pause_ns = patience.retries.pause_ns(end, tries, chance) if ask.can_retry else None
        if pause_ns is None or now_ns() + pause_ns >= ends_at_ns:
            raise _failure(end)
        yield Pause(pause_ns)
        left_ns = ends_at_ns - now_ns()
        if left_ns <= 0:
            raise _failure(end)
        tries += 1


def _understood(ask: Ask[T], answer: Answer) -> T:
    try:
        return ask.read(answer)
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise HeadwayError(
            f"the answer of the server to `{ask.request.path}` cannot be read: {error}",
            hint="is there an Open Inference Protocol server at this address?",
        ) from error


def _failure(end: Answer | Lost) -> HeadwayError:
    failure = failure_of(end)
    if isinstance(end, Lost):
        failure.__cause__ = end.error
    return failure
