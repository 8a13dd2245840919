"""Where admitted requests wait: per model, per bucket, ordered; bounded by `refusal`.

A bucket's entries are sorted by key, so that a policy can look at the first few. Three lazy
structures share another idea: an entry that left stays in its heap or deque until it surfaces, so
leaving is O(1) and nothing is searched for. What never surfaces, since something more important
always lies above it, is swept out once it outnumbers what is alive.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from msgspec import Struct

from headway.core.forecast import UNKNOWN, Forecast
from headway.core.names import BucketKey, ReplicaId
from headway.core.params import ModelParams
from headway.core.request import (
    TRANSITIONS,
    RejectReason,
    Request,
    RequestState,
    RequestStep,
)
from headway.core.timers import Timer
from headway.errors import InvalidTransitionError

if TYPE_CHECKING:
    from headway.core.fleet import Batch

__all__ = ["Bucket", "Entry", "HangCheck", "ModelQueue", "Promotion", "Recheck", "TimerItem"]

_WAITING = RequestState.WAITING
_SPARE_COUNT = 64
"""Entries that left and are not worth a sweep."""


class Entry(Struct, eq=False):
    """The changing side of one live request."""

    request: Request
    key: tuple[int, ...]
    """Policy's key with the arrival sequence last: unique, so heaps never compare entries."""
    deadline_at_ns: int = 0
    """Of its request, which would work it out anew each time."""
    expires_at_ns: int = 0
    """So is this."""
    state: RequestState = RequestState.ARRIVING
    bucket: "Bucket | None" = None
    batch: "Batch | None" = None
    expiry: "Timer[TimerItem] | None" = None
    foreseen: Forecast = UNKNOWN
    """What was expected of it when it was admitted."""
    aging: "Timer[TimerItem] | None" = None
    """At the instant of its promotion."""
    is_away: bool = False
    """A segment of it runs, and its place is kept."""
    rows_done: int = 0
    """Rows that have run, in segments."""
    generation: int = 0
    """The load of the model that ran them: all rows of an answer are of one."""
    started_at_ns: int = -1
    """Of its first batch; below 0 before."""
    service_ns: int = 0
    """Of its segments that have run."""

    @property
    def rows_left(self) -> int:
        """Rows that have not run."""
        return self.request.rows - self.rows_done

    def step(self, step: RequestStep) -> None:
        """Move along the table.

        Raises:
            InvalidTransitionError: the table has no such entry; nothing was changed.
        """
        after = TRANSITIONS.get((self.state, step))
        if after is None:
            raise InvalidTransitionError(
                f"request {self.request.request_id} cannot {step} while {self.state}",
                story=self.story(),
            )
        self.state = after

    def story(self) -> tuple[object, ...]:
        """What is known of how it got here, for the report of a bug."""
        if self.batch is None:
            return (self.request, self.state)
        return (self.request, self.state, f"in batch {self.batch.batch_id}")


class Bucket:
    """Waiting requests of one model that may share a batch.

    Invariants: ``rows`` and ``count`` are those of entries in state WAITING; ``is_due`` only
    while it is not empty; the entries are sorted by key.
    Cost: push, leave O(log n) and a move of memory; the views O(1) amortised.
    """

    __slots__ = (
        "_by_age",
        "_entries",
        "_keys",
        "_tightest_at_ns",
        "count",
        "is_due",
        "is_held",
        "key",
        "linger",
        "model",
        "offered",
        "recheck",
        "rows",
        "seq",
        "version",
    )

    def __init__(self, key: BucketKey, version: str, model: "ModelQueue", seq: int) -> None:
        self.key = key
        self.version = version
        self.model = model
        self.seq = seq
        self.rows = 0
        self.count = 0
        self.is_due = False
        self.linger: Timer[TimerItem] | None = None
        self.is_held = False
        """The policy said not now when it was last asked."""
        self.recheck: Timer[TimerItem] | None = None
        """Until when a policy holds it at the latest."""
        self.offered: tuple[int, ...] | None = None
        """The smallest of this bucket's keys in its model's due heap."""
        self._tightest_at_ns: int | None = None
        """None once the entry with it has left, until someone asks."""
        # Side by side, in order of service: to compare keys alone is faster than pairs with them.
        self._keys: list[tuple[int, ...]] = []
        self._entries: list[Entry] = []
        self._by_age: deque[Entry] = deque()

    def __lt__(self, other: "Bucket") -> bool:
        return self.seq < other.seq

    @property
    def oldest_arrived_at_ns(self) -> int:
        """Arrival of the request that has waited longest; the bucket must not be empty."""
        by_age = self._by_age
        while by_age[0].state is not _WAITING:
            by_age.popleft()
        return by_age[0].request.arrived_at_ns

    @property
    def tightest_deadline_at_ns(self) -> int:
        """Earliest deadline of those that wait; the bucket must not be empty.

        Cost: O(n) after the tightest has left, else O(1); asked only of a bucket that lingers,
        which holds less than a full batch.
        """
        if self._tightest_at_ns is None:
            self._tightest_at_ns = min(
                entry.deadline_at_ns for entry in self._by_age if entry.state is _WAITING
            )
        return self._tightest_at_ns

    def push(self, entry: Entry) -> None:
        """Add a waiting entry."""
        deadline_at_ns, tightest_at_ns = entry.deadline_at_ns, self._tightest_at_ns
        if self.count == 0 or (tightest_at_ns is not None and deadline_at_ns < tightest_at_ns):
            self._tightest_at_ns = deadline_at_ns
        self._insert(entry)
        if entry.started_at_ns < 0:
            self._by_age.append(entry)
        else:
            _put_back(self._by_age, entry)
        self.count += 1
        self.rows += entry.rows_left
        entry.bucket = self

    def head(self) -> Entry | None:
        """The entry served first, or None."""
        return self._entries[0] if self._entries else None

    @property
    def head_rows_left(self) -> int:
        """Rows of the head that have not run; the bucket must not be empty."""
        return self._entries[0].rows_left

    def front(self, count: int) -> list[Request]:
        """The first that wait, in order of service."""
        return [entry.request for entry in self._entries[:count]]

    def rekey(self, entry: Entry, key: tuple[int, ...]) -> None:
        """Give an entry another place."""
        self._remove(entry)
        entry.key = key
        self._insert(entry)

    def leave(self, entry: Entry) -> None:
        """Account for an entry whose state is no longer WAITING."""
        self.count -= 1
        self.rows -= entry.rows_left
        entry.bucket = None
        self._remove(entry)
        if entry.deadline_at_ns == self._tightest_at_ns:
            self._tightest_at_ns = None
        if self.count == 0:
            self._by_age.clear()
            self.is_due = False
        elif len(self._by_age) > 2 * self.count + _SPARE_COUNT:
            self._sweep()

    def _insert(self, entry: Entry) -> None:
        key = entry.key
        place = bisect_left(self._keys, key)
        self._keys.insert(place, key)
        self._entries.insert(place, entry)

    def _remove(self, entry: Entry) -> None:
        entries = self._entries
        # Nearly always it is the first.
        place = 0 if entries[0] is entry else bisect_left(self._keys, entry.key)
        assert entries[place] is entry, "only who waits can leave the bucket"
        del self._keys[place], entries[place]

    def _sweep(self) -> None:
        """Drop entries that left; each was pushed once, so this is O(1) amortised."""
        self._by_age = deque(e for e in self._by_age if e.state is _WAITING)


def _put_back(by_arrival: list[Entry] | deque[Entry], entry: Entry) -> None:
    """Let an entry that ran a segment stand where it stood, once: it may have been left there."""
    place = bisect_left(by_arrival, entry.key[-1], key=_arrival)
    if place == len(by_arrival) or by_arrival[place] is not entry:
        by_arrival.insert(place, entry)


def _arrival(entry: Entry) -> int:
    return entry.key[-1]


class _Class:
    """Waiting entries of one priority, newest last; those that left stay until they surface."""

    __slots__ = ("count", "stack")

    def __init__(self) -> None:
        self.count = 0
        self.stack: list[Entry] = []

    def push(self, entry: Entry) -> None:
        if entry.started_at_ns < 0:
            self.stack.append(entry)
        else:
            _put_back(self.stack, entry)
        self.count += 1

    def leave(self) -> None:
        self.count -= 1
        if len(self.stack) > 2 * self.count + _SPARE_COUNT:
            self.stack = [entry for entry in self.stack if entry.state is _WAITING]

    def newest_first(self) -> Iterator[Entry]:
        return (entry for entry in reversed(self.stack) if entry.state is _WAITING)


class ModelQueue:
    """All that waits for one model.

    Invariants: ``count``, ``rows`` and ``payload_bytes`` are sums over its buckets; every due
    bucket has its head's key in the due heap; those away come back, so they count in the limits.
    """

    __slots__ = (
        "_bucket_seq",
        "_classes",
        "_due",
        "away_bytes",
        "away_count",
        "barren_count",
        "buckets",
        "count",
        "params",
        "payload_bytes",
        "rows",
    )

    def __init__(self, params: ModelParams) -> None:
        self.params = params
        self.buckets: dict[BucketKey, Bucket] = {}
        self.count = 0
        self.rows = 0
        self.payload_bytes = 0
        self.away_count = 0
        """Requests of which a segment runs and more is to wait again."""
        self.away_bytes = 0
        self.barren_count = 0
        """Times that a slot was free for a bucket of hopeless requests only, since a probe."""
        self._due: list[tuple[tuple[int, ...], Bucket]] = []
        self._classes: dict[int, _Class] = {}
        self._bucket_seq = 0

    def refusal(self, request: Request) -> RejectReason | None:
        """The model's own limit that one more request would break."""
        params = self.params
        has_too_many_rows = request.rows > params.batch_rows_max and params.can_batch
        if has_too_many_rows and not params.can_split:
            return RejectReason.TOO_MANY_ROWS
        if self.count + self.away_count >= params.queue_requests_max:
            return RejectReason.MODEL_QUEUE_FULL
        payload_bytes = self.payload_bytes + self.away_bytes + request.payload_bytes
        if payload_bytes > params.queue_bytes_max:
            return RejectReason.MODEL_BYTES_FULL
        return None

    def push(self, entry: Entry) -> Bucket:
        """Put a waiting entry into its bucket, made when missing."""
        request = entry.request
        bucket = self.buckets.get(request.bucket)
        if bucket is None:
            self._bucket_seq += 1
            bucket = Bucket(request.bucket, request.version, self, self._bucket_seq)
            self.buckets[request.bucket] = bucket
        bucket.push(entry)
        of_class = self._classes.get(request.priority)
        if of_class is None:
            of_class = self._classes[request.priority] = _Class()
        of_class.push(entry)
        self.count += 1
        self.rows += entry.rows_left
        self.payload_bytes += request.payload_bytes
        if bucket.is_due and (bucket.offered is None or entry.key < bucket.offered):
            self._offer(bucket, entry)
        return bucket

    def leave(self, entry: Entry) -> None:
        """Account for an entry whose state is no longer WAITING; an empty bucket goes."""
        bucket = entry.bucket
        assert bucket is not None, "only a waiting entry has a bucket to leave"
        bucket.leave(entry)
        self.count -= 1
        self.rows -= entry.rows_left
        self.payload_bytes -= entry.request.payload_bytes
        if bucket.count == 0:
            del self.buckets[bucket.key]
        of_class = self._classes[entry.request.priority]
        of_class.leave()
        if of_class.count == 0:
            del self._classes[entry.request.priority]

    def rekey(self, entry: Entry, key: tuple[int, ...]) -> None:
        """Give a waiting entry another place in the order of service."""
        bucket = entry.bucket
        assert bucket is not None, "what waits is in a bucket"
        bucket.rekey(entry, key)
        if bucket.is_due:
            self._offer(bucket, entry)

    def less_important_than(self, priority: int) -> Iterator[Entry]:
        """Waiting entries of classes below one: the lowest class first, in it the newest."""
        for below in sorted((p for p in self._classes if p > priority), reverse=True):
            yield from self._classes[below].newest_first()

    def mark_due(self, bucket: Bucket) -> None:
        """A free slot may take the bucket's head from now on."""
        bucket.is_due = True
        head = bucket.head()
        assert head is not None, "only a bucket with a head can be due"
        self._offer(bucket, head)

    def due_head(self) -> tuple[tuple[int, ...], Bucket] | None:
        """The due bucket whose head is served first, with that key; or None.

        Cost: O(log n) amortised over pushes and departures.
        """
        due = self._due
        while due:
            key, bucket = due[0]
            head = bucket.head() if bucket.is_due else None
            if head is not None and head.key == key:
                return due[0]
            heappop(due)
            if key == bucket.offered:
                bucket.offered = None
                if head is not None:
                    self._offer(bucket, head)
        return None

    def due_buckets(self) -> list[tuple[tuple[int, ...], Bucket]]:
        """Every due bucket with its head's key, in order of service.

        Cost: O(b log b) over b buckets; asked only when the first could not be placed.
        """
        pairs = [
            (head.key, bucket)
            for bucket in self.buckets.values()
            if bucket.is_due and (head := bucket.head()) is not None
        ]
        return sorted(pairs)

    def _offer(self, bucket: Bucket, head: Entry) -> None:
        """Have the head's key in the due heap, once: a smaller one that is stale will re-offer."""
        if bucket.offered is None or head.key < bucket.offered:
            bucket.offered = head.key
            heappush(self._due, (head.key, bucket))
            if len(self._due) > 2 * len(self.buckets) + _SPARE_COUNT:
                self._sweep_due()

    def _sweep_due(self) -> None:
        """Keep one offer a bucket; each was pushed once, so this is O(1) amortised."""
        offers = ((b.offered, b) for b in self.buckets.values())
        self._due = [(key, bucket) for key, bucket in offers if key is not None]
        heapify(self._due)


class Promotion(Struct, eq=False):
    """The timer of a request that is promoted where it waits."""

    entry: Entry


class Recheck(Struct, eq=False):
    """The timer of a bucket that a policy holds no longer than until then."""

    bucket: Bucket


class HangCheck:
    """The timer that looks for hung batches; there is one for all of them."""


TimerItem = Entry | Bucket | Promotion | Recheck | HangCheck | ReplicaId
"""What the kernel's own timers point at: expiry, linger, promotion, the end of a hold, hung
batches, a replica's restart."""
