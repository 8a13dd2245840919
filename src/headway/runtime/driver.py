"""The live driver: hands events to the kernel and carries out what it says.

Knows ids and commands, not tensors: what to do for a request or a batch is asked of `Effects`.
A bug in the kernel stops everything: it is reported once, and nothing is handled after it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

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

__all__ = ["Driver", "Effects", "Observer"]

Observer = Callable[[int, Event, list[Command]], None]
"""Sees every kernel step: (now_ns, event, commands). It may fail without harm."""

_WAKE = TimerFired()


class Effects(Protocol):
    """What the world does when the kernel says so. None of it may block, or post an event."""

    def dispatch(self, command: Dispatch) -> None:
        """Hand a batch to its slot."""

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

    Invariants: events are handled one at a time, in the order posted; after a crash none is.
    """

    def __init__(
        self,
        kernel: Kernel,
        clock: Clock,
        effects: Effects,
        *,
        observers: Sequence[Observer] = (),
        observer_lost: Callable[[Exception], None] = lambda error: None,  # noqa: ARG005
    ) -> None:
        self.kernel = kernel
        self._clock = clock
        self._effects = effects
        self._observers = list(observers)
        self._observer_lost = observer_lost
        self._wake: Timer[Callback] | None = None
        self._pending: deque[Event] = deque()
        self._is_handling = False
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
        try:
            commands = self.kernel.handle(event, now_ns)
        except Exception as bug:  # noqa: BLE001 - whatever it is, it is our bug and the end
            self._crash(event, bug)
            return
        if self._observers:
            self._observe(now_ns, event, commands)
        for command in commands:
            self._carry_out(command)

    def _observe(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Tell every observer; one that raises is dropped, it cannot break the run."""
        for observer in tuple(self._observers):
            try:
                observer(now_ns, event, commands)
            except Exception as error:  # noqa: BLE001, PERF203 - an observer may fail without harm
                self._observers.remove(observer)
                self._observer_lost(error)

    def _carry_out(self, command: Command) -> None:
        effects = self._effects
        match command:
            case Complete() | Reject() | Expire() | Cancel() | Fail():
                effects.answer(command)
            case Dispatch():
                effects.dispatch(command)
            case SetTimer():
                self._set_timer(command.at_ns)
            case CancelBatch():
                effects.cancel_batch(command.batch_id)
            case LoadReplica():
                effects.load_replica(command)
            case UnloadReplica():
                effects.unload_replica(command.replica_id)
            case ReplaceWorker():
                effects.replace_worker(command.replica_id)
            case ConcludeLoad() | ConcludeUnload():
                effects.conclude(command)

    def _set_timer(self, at_ns: int) -> None:
        if self._wake is not None:
            self._clock.cancel(self._wake)
        self._wake = self._clock.call_at(at_ns, self._fire)

    def _fire(self) -> None:
        self._wake = None
        self.post(_WAKE)

    def _crash(self, event: Event, bug: Exception) -> None:
        self.has_crashed = True
        error = bug if isinstance(bug, InternalError) else InternalError(repr(bug))
        error.__cause__ = None if error is bug else bug
        error.add_note(f"while handling {event!r}")
        self._effects.crashed(error)
