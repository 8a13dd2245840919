"""The live driver: hands events to the kernel and carries out what it says.

Knows ids and commands, not tensors: what to do for a request or a batch is asked of `Effects`.
A bug in the kernel stops everything: it is reported once, and nothing is handled after it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, Final, NamedTuple, Protocol

from headway.core import (
    BatchId,
    Cancel,
    CancelBatch,
    Command,
    Complete,
    ConcludeLoad,
    ConcludeUnload,
    Dispatch,
    Event,
    Expire,
    Fail,
    KeepSegment,
    Kernel,
    LoadReplica,
    Reject,
    ReplaceWorker,
    ReplicaId,
    SetTimer,
    Timer,
    TimerFired,
    UnloadReplica,
)
from headway.errors import InternalError
from headway.runtime.clock import Callback, Clock

__all__ = ["UNTIMED", "Driver", "Effects", "Observer", "Timings"]

Observer = Callable[[int, Event, list[Command]], None]
"""Sees every kernel step: (now_ns, event, commands). It may fail without harm."""

_WAKE = TimerFired()


class Timings(NamedTuple):
    """Who is told, in nanoseconds, how the driver itself fares. They must not raise."""

    decided: Callable[[int], None]
    """How long the kernel took over an event: real time, whatever the clock."""
    woke: Callable[[int], None]
    """How long after the instant that the kernel asked for it was woken."""


UNTIMED: Final = Timings(decided=lambda ns: None, woke=lambda ns: None)  # noqa: ARG005


class Effects(Protocol):
    """What the world does when the kernel says so.

    None of it may block. What is posted from within is handled after the present commands.
    """

    def dispatch(self, command: Dispatch) -> None:
        """Hand a batch to its slot."""

    def keep_segment(self, command: KeepSegment) -> None:
        """Keep what a part of a request gave, for its answer."""

    def answer(self, command: Complete | Reject | Expire | Cancel | Fail) -> None:
        """End a request."""

    def cancel_batch(self, batch_id: BatchId) -> None:
        """Stop a batch at its next safe point."""

    def load_replica(self, command: LoadReplica) -> None:
        """Start loading."""

    def unload_replica(self, replica_id: ReplicaId) -> None:
        """Start unloading."""

    def replace_worker(self, replica_id: ReplicaId) -> None:
        """Kill the worker that holds a replica."""

    def conclude(self, command: ConcludeLoad | ConcludeUnload) -> None:
        """Answer whoever asked for a load or an unload."""

    def crashed(self, error: InternalError) -> None:
        """The kernel has a bug; nothing will be handled any more."""


class Driver:
    """One kernel on one clock.

    Invariants: events are handled one at a time, in the order posted; after a crash none is, be
    it the kernel that raised or an effect.
    """

    def __init__(
        self,
        kernel: Kernel,
        clock: Clock,
        effects: Effects,
        *,
        observers: Sequence[Observer] = (),
        observer_lost: Callable[[Exception], None] = lambda error: None,  # noqa: ARG005
        timings: Timings = UNTIMED,
    ) -> None:
        self.kernel = kernel
        self._clock = clock
        self._effects = effects
        self._observers = tuple(observers)
        self._observer_lost = observer_lost
        self._timings = timings
        self._wake: Timer[Callback] | None = None
        self._wake_at_ns = 0
        self._pending: deque[Event] = deque()
        self._is_handling = False
        self._actions = self._actions_of(effects)
        self.has_crashed = False

    def post(self, event: Event) -> None:
        """Handle an event now, or after the one that is being handled."""
        if self._is_handling:
            self._pending.append(event)
            return
        self._is_handling = True
        try:
            self._handle(event)
            while self._pending:
                self._handle(self._pending.popleft())
        finally:
            self._is_handling = False

    def stop(self) -> None:
        """Drop the timer; events posted later are still handled."""
        if self._wake is not None:
            self._clock.cancel(self._wake)

    def _handle(self, event: Event) -> None:
        if self.has_crashed:
            return
        now_ns = self._clock.now_ns()
        bug: Exception | None = None
        began_at_ns = perf_counter_ns()
        try:
            commands = self.kernel.handle(event, now_ns)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our bug and the end
            commands, bug = [], error  # observed too: a replay of the journal is to fail on it
        self._timings.decided(perf_counter_ns() - began_at_ns)
        for observer in self._observers:
            try:
                observer(now_ns, event, commands)
            except Exception as error:  # noqa: BLE001 - an observer may fail without harm
                self._drop(observer, error)
        actions = self._actions
        try:
            for command in commands:
                actions[type(command)](command)
        except Exception as error:  # noqa: BLE001 - kernel and world no longer agree: just as bad
            bug = error
        if bug is not None:
            self._crash(event, bug)

    def _drop(self, observer: Observer, error: Exception) -> None:
        """An observer that raised is told nothing more; it cannot break the run."""
        self._observers = tuple(o for o in self._observers if o is not observer)
        self._observer_lost(error)

    def _actions_of(self, effects: Effects) -> dict[type[Command], Callable[[Any], None]]:
        """What to do for each kind of command; a look-up is cheaper than a chain of cases."""
        return {
            Complete: effects.answer,
            Reject: effects.answer,
            Expire: effects.answer,
            Cancel: effects.answer,
            Fail: effects.answer,
            Dispatch: effects.dispatch,
            KeepSegment: effects.keep_segment,
            SetTimer: self._set_timer,
            CancelBatch: lambda command: effects.cancel_batch(command.batch_id),
            LoadReplica: effects.load_replica,
            UnloadReplica: lambda command: effects.unload_replica(command.replica_id),
            ReplaceWorker: lambda command: effects.replace_worker(command.replica_id),
            ConcludeLoad: effects.conclude,
            ConcludeUnload: effects.conclude,
        }

    def _set_timer(self, command: SetTimer) -> None:
        if self._wake is not None:
            self._clock.cancel(self._wake)
        self._wake_at_ns = command.at_ns
        self._wake = self._clock.call_at(command.at_ns, self._fire)

    def _fire(self) -> None:
        self._wake = None
        self._timings.woke(self._clock.now_ns() - self._wake_at_ns)
        self.post(_WAKE)

    def _crash(self, event: Event, bug: Exception) -> None:
        self.has_crashed = True
        if isinstance(bug, InternalError):
            error = bug
        else:
            error = InternalError(repr(bug))
            error.__cause__ = bug
        error.add_note(f"while handling {event!r}")
        self._effects.crashed(error)
