"""A policy that decides at random: it cuts, holds, gives up, refuses and promotes as it likes.

Which of these it does at all is drawn for each run, since a bug may show only where some never
happen. What it says follows from a seed and from what it is shown: asked twice, it says the same.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final
from zlib import crc32

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
    SlotOption,
    Start,
)

MOODS: Final = ("cuts", "holds", "gives_up", "refuses", "promotes")
MS: Final = 1_000_000


class Swarm:
    """Placement, admission and aging of a policy that is otherwise another one.

    Args:
        seed: of all that it says.
        moods: which of `MOODS` it has.
    """

    def __init__(self, seed: int, moods: Collection[str]) -> None:
        self._seed = seed
        self._moods = frozenset(moods)

    def _number(self, *what: object) -> int:
        return crc32(repr((self._seed, *what)).encode())

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """By the head, the hour and how much is free."""
        (head,) = bucket.front(1)
        number = self._number(head.request_id, bucket.head_rows_left, now_ns, fleet.free_slots)
        if "gives_up" in self._moods and number % 7 == 0:
            return GiveUp()
        if "holds" in self._moods and number % 3 == 0:
            return Hold((None, now_ns, now_ns + 1, now_ns + 9 * MS)[number // 3 % 4])
        rows = (None, 1, 2, 3, 100)[number % 5] if "cuts" in self._moods else None
        return Start(options[number % len(options)], rows)

    def refuse(
        self, request: Request, foreseen: Forecast, load: LoadView, now_ns: int
    ) -> Refusal | None:
        """One in five."""
        if "refuses" in self._moods and self._number(request.request_id, "door") % 5 == 0:
            return Refusal(self._number(request.request_id))
        return None

    def promotes_at_ns(self, request: Request) -> int | None:
        """Two in three, after a while, before it came or long after its end."""
        number = self._number(request.request_id, "age")
        if "promotes" not in self._moods or number % 3 == 0:
            return None
        return request.arrived_at_ns + (-MS, 0, 1, 5 * MS, 30 * MS, 5_000 * MS)[number % 6]

    def promoted_key(self, request: Request) -> tuple[int, ...]:
        """Better or worse than before."""
        return (self._number(request.request_id, "key") % 5 - 1,)

    def maker(self, make: Callable[[Predictor], Policy]) -> Callable[[Predictor], Policy]:
        """What makes a policy of another name's order and batching."""
        return lambda predictor: replace(
            make(predictor), placement=self, admission=self, aging=self
        )


class Accounts:
    """`Feedback` that keeps account of what it is told, and of what it must never be told.

    Passes everything on to the policy's own, if there is one.
    """

    def __init__(self, policy: Policy) -> None:
        self._inner = policy.feedback
        self.admitted_ids: set[int] = set()
        self.ends: dict[int, bool] = {}
        """Whether each request that has ended was met."""
        self.rows: Counter[int] = Counter()
        self.parts: Counter[int] = Counter()
        """Batches that run with rows of a request."""
        self.ran_ns = 0

    def admitted(self, request: Request, now_ns: int) -> None:
        """Once, and before all else."""
        assert request.request_id not in self.admitted_ids
        assert request.request_id not in self.ends
        self.admitted_ids.add(request.request_id)
        if self._inner is not None:
            self._inner.admitted(request, now_ns)

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """Of who was admitted and has not ended; at most one part at a time."""
        assert request.request_id in self.admitted_ids
        assert request.request_id not in self.ends
        assert 1 <= rows <= request.rows
        assert self.parts[request.request_id] == 0
        self.rows[request.request_id] += rows
        self.parts[request.request_id] += 1
        if self._inner is not None:
            self._inner.started(request, rows, now_ns)

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Of who was started."""
        assert device_ns >= 0
        assert self.parts[request.request_id] == 1
        self.parts[request.request_id] -= 1
        self.ran_ns += device_ns
        if self._inner is not None:
            self._inner.ran(request, device_ns, now_ns)

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """Once; in time only if all rows were started."""
        assert request.request_id not in self.ends
        assert not is_met or now_ns <= request.deadline_at_ns
        assert not is_met or self.rows[request.request_id] >= request.rows
        self.ends[request.request_id] = is_met
        if self._inner is not None:
            self._inner.ended(request, is_met, now_ns)
