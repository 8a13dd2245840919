"""Requests that wait, as vLLM asks for them: its queue, from anywhere in which a plan can take.

vLLM's own queues take from the front, and search for all others. Here the order is a matter of the
plan, and whoever is in it is found at once.

Knows requests by their id. Refuses to know anything else of them.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

__all__ = ["Waiting"]


class HasId(Protocol):
    """What is asked of a request."""

    request_id: str


R = TypeVar("R", bound=HasId)


class Waiting(Generic[R]):
    """vLLM's queue, with removal in no time: a plan takes from anywhere."""

    def __init__(self, requests: Iterable[R] = ()) -> None:
        self._requests: dict[str, R] = {each.request_id: each for each in requests}

    def add_request(self, request: R) -> None:
        """At the end."""
        self._requests[request.request_id] = request

    def pop_request(self) -> R:
        """Take out the first."""
        return self._requests.pop(next(iter(self._requests)))

    def peek_request(self) -> R:
        """The first."""
        return next(iter(self._requests.values()))

    def prepend_request(self, request: R) -> None:
        """Anywhere: order is a matter of the plan."""
        self.add_request(request)

    def prepend_requests(self, requests: Iterable[R]) -> None:
        """Anywhere."""
        for request in requests:
            self.add_request(request)

    def remove_request(self, request: R) -> None:
        """Take one out, if it is there."""
        self._requests.pop(request.request_id, None)

    def remove_requests(self, requests: Iterable[R]) -> None:
        """Take some out, as far as they are there."""
        for request in requests:
            self.remove_request(request)

    def __bool__(self) -> bool:
        return bool(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[R]:
        return iter(self._requests.values())
