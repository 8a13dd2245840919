"""A policy that says what a test tells it to, and writes down what it is told.

The test changes `rows`, `held`, `given_up` and `refused` between two events of a dialogue.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from headway.core import (
    BucketView,
    FleetView,
    Forecast,
    GiveUp,
    Hold,
    LoadView,
    ModelParams,
    Placing,
    Policy,
    Predictor,
    Refusal,
    Request,
    RequestId,
    SlotOption,
    Start,
)
from headway.policy import fifo
from headway.testing import MeanPredictor


class Told(NamedTuple):
    """One word of the kernel to `Feedback`."""

    what: str
    request_id: int
    value: int = 0
    """Rows of a start, nanoseconds of a run, 1 for an end in time."""
    at_ns: int = 0


class Scripted:
    """Placement, admission, aging and feedback in one.

    Args:
        rows: of every batch at most; None for what batching says.
        held: requests that are not to start, with the instant at which to ask again, if any.
        given_up: requests that are to end when they are first.
        refused: requests that are not to be let in.
        promotes_after_ns: of waiting, by request; who is not in it never is.
    """

    def __init__(
        self,
        *,
        rows: int | None = None,
        held: dict[int, int | None] | None = None,
        given_up: Sequence[int] = (),
        refused: Sequence[int] = (),
        promotes_after_ns: dict[int, int] | None = None,
    ) -> None:
        self.rows = rows
        self.held = dict(held or {})
        self.given_up = set(given_up)
        self.refused = set(refused)
        self.promotes_after_ns = dict(promotes_after_ns or {})
        self.asked: list[RequestId] = []
        """Heads that placement was asked about."""
        self.told: list[Told] = []

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """By the head alone."""
        (head,) = bucket.front(1)
        self.asked.append(head.request_id)
        if head.request_id in self.given_up:
            return GiveUp()
        if head.request_id in self.held:
            until_ns = self.held[head.request_id]
            if until_ns is None or now_ns < until_ns:
                return Hold(until_ns)
        return Start(options[0], self.rows)

    def refuse(
        self, request: Request, foreseen: Forecast, load: LoadView, now_ns: int
    ) -> Refusal | None:
        """Whom the test names."""
        return Refusal(50_000_000) if request.request_id in self.refused else None

    def promotes_at_ns(self, request: Request) -> int | None:
        """So long after its arrival."""
        after_ns = self.promotes_after_ns.get(request.request_id)
        return None if after_ns is None else request.arrived_at_ns + after_ns

    def promoted_key(self, request: Request) -> tuple[int, ...]:
        """Before everyone who was not promoted."""
        return (-1,)

    def admitted(self, request: Request, now_ns: int) -> None:
        """Written down."""
        self.told.append(Told("admitted", request.request_id, at_ns=now_ns))

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """Written down."""
        self.told.append(Told("started", request.request_id, rows, now_ns))

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Written down."""
        self.told.append(Told("ran", request.request_id, device_ns, now_ns))

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """Written down."""
        self.told.append(Told("ended", request.request_id, int(is_met), now_ns))

    def of(self, request_id: int) -> list[tuple[str, int]]:
        """What was told of one request, in order, and with which number."""
        return [(told.what, told.value) for told in self.told if told.request_id == request_id]

    def policy(self, make: Callable[[Predictor], Policy] = fifo) -> Policy:
        """A policy of another name's order that does what this one says."""
        return replace(
            make(MeanPredictor()), placement=self, admission=self, aging=self, feedback=self
        )
