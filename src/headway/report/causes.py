"""What a request's time went into, from its arrival to its end: parts that add up to its latency.

A wait is taken apart by `waits`, an execution here, against what such batches take:

- `overhead` is what is in none of the stages that the executor timed, `transfer` two of them;
- of the execution, what a batch of this model, shape and size takes *alone* is its base: the median
  of those that had nothing beside them on the device, and where there were fewer than three, the
  fastest tenth of all of them;
- the base is `own_work`, what the request's rows alone would have taken, and `company`, what the
  other rows add; the share of both that was spent on padding, by bytes, is `padding`;
- beyond the base, `interference` is the time that batches ran beside it times what such time costs
  this model on average, on the same lane and on others apart; at most all that is there;
- what is left is `cold_start` for the first batch of a size on a fresh replica that took twice its
  base or longer, and `variance` for any other.

Nothing of it is negative, and a property test holds the sum to the latency for any run at all.

Knows lives, and what was typical in the same records. Refuses to know what to do about it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.observe import BatchEnding, BatchLife, Lives, Pause, RequestLife, paused_ns
from headway.report.waits import Blocker, Cause, split_wait

__all__ = ["Beside", "Parts", "Typical", "TypicalTimes", "beside", "parts_of"]

_KEYS_MAX: Final = 4_096
"""Models, shapes and sizes whose times are kept apart."""
_KEPT_MAX: Final = 2_048
"""Times of each; beyond that every other one is dropped, and from then on every other one taken."""
_ALONE_MIN: Final = 3
_FAST_RATIO: Final = 0.1

_Key = tuple[ModelName, str, int]


class Beside(NamedTuple):
    """How long others ran beside a batch, added up over them."""

    lane_ns: int
    """On its lane, or where slots share all of a device, anywhere on it."""
    elsewhere_ns: int
    """On other lanes of its device."""


class Parts(NamedTuple):
    """A request's time, taken apart."""

    parts_ns: Counter[Cause]
    """They add up to its latency."""
    blockers: Sequence[Blocker]
    """Who held the slots while it waited, in no order; a batch may stand there more than once."""


class _Seen(NamedTuple):
    execution_ns: int
    beside: Beside


class _Times:
    """Times of batches of one model, shape and size: all, or every 2nd, 4th, ..."""

    __slots__ = ("count", "kept", "stride")

    def __init__(self) -> None:
        self.kept: list[_Seen] = []
        self.stride = 1
        self.count = 0

    def add(self, seen: _Seen) -> None:
        if self.count % self.stride == 0:
            self.kept.append(seen)
            if len(self.kept) >= _KEPT_MAX:
                del self.kept[1::2]
                self.stride *= 2
        self.count += 1

    def alone_ns(self) -> int:
        alone = [seen.execution_ns for seen in self.kept if not sum(seen.beside)]
        if len(alone) >= _ALONE_MIN:
            return round(median(alone))
        times = sorted(seen.execution_ns for seen in self.kept)
        return times[int(_FAST_RATIO * (len(times) - 1))]


class _Cost(NamedTuple):
    """What a nanosecond of a neighbour costs, in nanoseconds."""

    lane: float
    elsewhere: float


class Typical(NamedTuple):
    """What batches take in a run, and its pauses."""

    alone_ns: dict[_Key, int]
    costs: dict[ModelName, _Cost]
    pauses: Sequence[Pause]

    def base_ns(self, model: ModelName, bucket: str, rows: int) -> int | None:
        """Of a batch that runs alone; None of a model and shape that never ran.

        A size that never ran is between its neighbours; beyond the least and the most seen nothing
        is claimed, and theirs is taken.
        """
        exact = self.alone_ns.get((model, bucket, rows))
        if exact is not None:
            return exact
        known = sorted(
            (r, t) for (m, b, r), t in self.alone_ns.items() if (m, b) == (model, bucket)
        )
        if not known:
            return None
        below = [point for point in known if point[0] < rows]
        above = [point for point in known if point[0] > rows]
        if not below or not above:
            return (below or above)[-1 if below else 0][1]
        (low, low_ns), (high, high_ns) = below[-1], above[0]
        return low_ns + (high_ns - low_ns) * (rows - low) // (high - low)

    def interference_ns(self, model: ModelName, beside: Beside) -> int:
        """What neighbours cost a batch on average."""
        cost = self.costs.get(model)
        if cost is None:
            return 0
        return round(cost.lane * beside.lane_ns + cost.elsewhere * beside.elsewhere_ns)


class TypicalTimes:
    """Learns what is typical from a run, or from as much of it as there is."""

    def __init__(self) -> None:
        self._times: dict[_Key, _Times] = {}

    def add(self, batch: BatchLife, lives: Lives) -> None:
        """A batch has just ended."""
        if batch.ending is not BatchEnding.FINISHED or batch.bucket is None:
            return
        key = (batch.dispatch.model, batch.bucket, batch.dispatch.rows)
        times = self._times.get(key)
        if times is None:
            if len(self._times) >= _KEYS_MAX:
                return
            times = self._times[key] = _Times()
        times.add(_Seen(_stages(batch, lives.now_ns).execution_ns, beside(batch, lives)))

    def typical(self, pauses: Sequence[Pause]) -> Typical:
        """As far as it is known."""
        alone_ns = {key: times.alone_ns() for key, times in self._times.items()}
        excesses: dict[ModelName, list[_Seen]] = {}
        for key, times in self._times.items():
            base_ns = alone_ns[key]
            excesses.setdefault(key[0], []).extend(
                _Seen(seen.execution_ns - base_ns, seen.beside) for seen in times.kept
            )
        costs = {model: _cost(seen) for model, seen in excesses.items()}
        return Typical(alone_ns, costs, pauses)


def _cost(excesses: Iterable[_Seen]) -> _Cost:
    """Of neighbours elsewhere from batches that had no others; the rest is the lane's."""
    every = list(excesses)
    apart = [seen for seen in every if not seen.beside.lane_ns]
    elsewhere = _ratio((seen.execution_ns, seen.beside.elsewhere_ns) for seen in apart)
    lane = _ratio(
        (seen.execution_ns - elsewhere * seen.beside.elsewhere_ns, seen.beside.lane_ns)
        for seen in every
        if seen.beside.lane_ns
    )
    return _Cost(lane, elsewhere)


def _ratio(pairs: Iterable[tuple[float, int]]) -> float:
    """The sum of what was lost over the sum of what was beside; never below 0."""
    lost = beside_ns = 0.0
    for one_lost, one_beside_ns in pairs:
        if one_beside_ns:
            lost += one_lost
            beside_ns += one_beside_ns
    return max(0.0, lost / beside_ns) if beside_ns else 0.0


def beside(batch: BatchLife, lives: Lives) -> Beside:
    """How long others ran beside a batch, up to its end or to now."""
    from_ns, to_ns = batch.started_at_ns, batch.upto_ns(lives.now_ns)
    device = lives.devices.get(batch.dispatch.device)
    is_one = device is None or device.shares_all or not device.is_pinned
    lane_ns = elsewhere_ns = 0
    for other in lives.batches_between(batch.dispatch.device, from_ns, to_ns):
        if other is batch:
            continue
        start_ns = max(from_ns, other.started_at_ns)
        overlap_ns = max(0, min(to_ns, other.upto_ns(lives.now_ns)) - start_ns)
        if is_one or other.lane == batch.lane:
            lane_ns += overlap_ns
        else:
            elsewhere_ns += overlap_ns
    return Beside(lane_ns, elsewhere_ns)


class _Stages(NamedTuple):
    overhead_ns: int
    transfer_ns: int
    execution_ns: int


def _stages(batch: BatchLife, end_ns: int) -> _Stages:
    """They add up to its time on the slot; where nobody timed them all of it is execution."""
    left_ns = max(0, batch.upto_ns(end_ns) - batch.started_at_ns)
    stages = batch.stages
    if stages is None or not batch.has_stages:
        return _Stages(0, 0, left_ns)
    transfer_ns = min(left_ns, stages.transfer_in_ns + stages.transfer_out_ns)
    execution_ns = min(left_ns - transfer_ns, stages.execution_ns)
    return _Stages(left_ns - transfer_ns - execution_ns, transfer_ns, execution_ns)


def parts_of(life: RequestLife, lives: Lives, typical: Typical) -> Parts | None:
    """Take a request's time apart when it has just ended, or as far as it has come.

    Returns:
        None where its arrival is not known.
    """
    arrived_at_ns = life.arrived_at_ns
    if arrived_at_ns is None:
        return None
    end_ns = lives.now_ns if life.ended_at_ns is None else life.ended_at_ns
    parts: Counter[Cause] = Counter()
    blockers: list[Blocker] = []
    seen_at_ns = min(max(life.seen_at_ns, arrived_at_ns), end_ns)
    if life.request is None:  # only its dispatch was recorded: what came before is one wait
        seen_at_ns = arrived_at_ns
    paused = paused_ns(typical.pauses, arrived_at_ns, seen_at_ns)
    parts[Cause.HOST_PAUSE] += paused
    parts[Cause.INTAKE] += seen_at_ns - arrived_at_ns - paused
    free_at_ns = seen_at_ns
    for run in life.runs:
        start_ns = max(free_at_ns, min(run.started_at_ns, end_ns))
        wait = split_wait(life, free_at_ns, start_ns, lives, typical.pauses)
        parts += wait.parts_ns
        blockers += wait.blockers
        free_at_ns = max(start_ns, min(run.upto_ns(lives.now_ns), end_ns))
        parts += _run_parts(life, run, start_ns, free_at_ns, lives, typical)
    wait = split_wait(life, free_at_ns, end_ns, lives, typical.pauses)
    parts += wait.parts_ns
    return Parts(parts, [*blockers, *wait.blockers])


def _run_parts(
    life: RequestLife, run: BatchLife, start_ns: int, end_ns: int, lives: Lives, typical: Typical
) -> Counter[Cause]:
    """A batch's time, as its member sees it: up to the batch's end, or its own if that is first."""
    parts: Counter[Cause] = Counter()
    if run.ended_at_ns is not None and run.ended_at_ns <= end_ns:
        stages = _stages(run, end_ns)
    else:
        stages = _Stages(0, 0, end_ns - start_ns)
    paused = min(stages.overhead_ns, paused_ns(typical.pauses, start_ns, end_ns))
    parts[Cause.HOST_PAUSE] += paused
    parts[Cause.OVERHEAD] += stages.overhead_ns - paused
    parts[Cause.TRANSFER] += stages.transfer_ns
    execution_ns, dispatch = stages.execution_ns, run.dispatch
    known_ns = typical.base_ns(dispatch.model, run.bucket or "", dispatch.rows)
    base_ns = execution_ns if known_ns is None else min(execution_ns, known_ns)
    excess_ns = execution_ns - base_ns
    interference_ns = min(excess_ns, typical.interference_ns(dispatch.model, beside(run, lives)))
    parts[Cause.INTERFERENCE] += interference_ns
    rest_ns = excess_ns - interference_ns
    is_cold = run.is_first and rest_ns >= base_ns
    parts[Cause.COLD_START if is_cold else Cause.VARIANCE] += rest_ns
    own_ns = base_ns
    if life.request is not None and not dispatch.is_segment:
        alone_ns = typical.base_ns(dispatch.model, run.bucket or "", life.request.rows)
        own_ns = base_ns if alone_ns is None else min(base_ns, alone_ns)
    padded, payload = _padding(run)
    padding_ns = base_ns * padded // payload if payload else 0
    own_ns -= own_ns * padded // payload if payload else 0
    own_ns = min(own_ns, base_ns - padding_ns)
    parts[Cause.PADDING] += padding_ns
    parts[Cause.OWN_WORK] += own_ns
    parts[Cause.COMPANY] += base_ns - padding_ns - own_ns
    return parts


class _Bytes(NamedTuple):
    padded: int
    payload: int


def _padding(run: BatchLife) -> _Bytes:
    """Of all its members whose arrivals are known."""
    known = [life.request for life in run.members if life.request is not None]
    payload = sum(request.payload_bytes for request in known)
    return _Bytes(min(payload, sum(request.padding_bytes for request in known)), payload)
