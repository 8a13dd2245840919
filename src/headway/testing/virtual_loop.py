"""An asyncio event loop in virtual time: no sleeping, and the same run every time.

Knows integer nanoseconds and what is ready. Refuses threads, sockets and child processes: nothing
from outside can make a virtual loop ready, so time is free to jump to the next timer.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from headway.units import NS_PER_S

__all__ = ["DeadlockError", "VirtualLoop", "run_virtual"]

T = TypeVar("T")

_RESOLUTION_S: Final = 0.75e-9
"""A timer this close is due. asyncio keeps instants as float seconds, whose rounding is far smaller
than half a nanosecond for the first fifty days; and it must be less than a whole one, or a timer
would fire a nanosecond early."""
_NAMES_MAX: Final = 8


class DeadlockError(RuntimeError):
    """Every task waits, no timer is set, and in virtual time nothing else can happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Time stands still while anything is ready, then jumps to the earliest timer.

    Invariants: `monotonic_ns` starts at 0 and never goes back; no real time is waited for.
    """

    _clock_resolution: float
    _selector: "_Jump"

    def __init__(self) -> None:
        super().__init__()
        self._now_ns = 0
        # BaseEventLoop polls this attribute between callbacks: the one place where time passes.
        self._selector = _Jump(self)
        self._clock_resolution = _RESOLUTION_S

    def monotonic_ns(self) -> int:
        """Nanoseconds since the loop was made; for `LoopClock(loop, loop.monotonic_ns)`."""
        return self._now_ns

    def time(self) -> float:
        """The same in seconds, as asyncio asks for it."""
        return self._now_ns / NS_PER_S

    def advance(self, duration_ns: int) -> None:
        """Let time pass within a callback, as slow code would; what falls due fires after it."""
        assert duration_ns >= 0, "time does not go back"
        self._now_ns += duration_ns

    def _process_events(self, event_list: list[object]) -> None:
        """There never are any: nothing is polled."""

    def _write_to_self(self) -> None:
        """Nothing sleeps, so nothing is woken."""


class _Jump:
    """Stands in for the selector: where a real loop waits, a virtual one jumps."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> list[object]:
        """Let so many seconds pass; no timeout means that nobody will ever be woken."""
        if timeout_s is None:
            raise DeadlockError(
                "nothing is ready and no timer is set, so nothing can happen any more; waiting: "
                + _waiting(self._loop)
            )
        self._loop.advance(int(timeout_s * NS_PER_S + 0.5))
        return []


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time.

    Raises:
        DeadlockError: it waits for something that cannot happen.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def _waiting(loop: VirtualLoop) -> str:
    names = sorted(
        f"`{getattr(task.get_coro(), '__qualname__', task.get_name())}`"
        for task in asyncio.all_tasks(loop)
    )
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + more if names else "no task"
