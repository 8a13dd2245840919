"""Where a slot's thread runs and how nice it is: the CPU's answer to priority streams.

A batch of the low class runs at a high niceness, so that the system gives the core to a batch of
the high class as soon as there is one. Becoming nicer is always allowed; going back needs the
privilege CAP_SYS_NICE (or a resource limit), which is found out by trying, on a thread that is then
thrown away.
"""

import os
import sys
import threading

from headway.executors.wire import SlotSetup

__all__ = ["Lane", "pin"]


class Lane:
    """The placement of one thread. Belongs to that thread: each call changes the caller's own."""

    __slots__ = ("_niceness", "can_renice", "high", "low", "name")

    def __init__(self, name: str, setup: SlotSetup) -> None:
        self.name = name
        self.high = setup.niceness_high
        self.low = setup.niceness_low
        self.can_renice = self.high == self.low or _can_renice(self.low, self.high)
        """Whether one thread can serve both classes; otherwise each class has a thread."""
        # Twice the default means that nobody asked: then the user's own `nice` is left alone.
        self._niceness: int | None = 0 if self.high == self.low == 0 else None

    def renice(self, niceness: int) -> None:
        """Change the calling thread's niceness. Cost: nothing if it stays, else one system call."""
        if niceness == self._niceness:
            return
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
        except PermissionError:
            # Said once: the value is remembered as if it had been set.
            sys.stderr.write(f"{self.name}: not allowed to run at niceness {niceness}\n")
        self._niceness = niceness


def pin(cores: tuple[int, ...], name: str) -> None:
    """Keep the calling thread on these cores, or on those of them that this process may use."""
    if not cores:
        return
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        sys.stderr.write(f"{name}: cannot be pinned to cores {list(cores)}: {error}\n")


def _can_renice(low: int, high: int) -> bool:
    allowed: list[bool] = []

    def try_both() -> None:
        me = threading.get_native_id()
        try:
            os.setpriority(os.PRIO_PROCESS, me, low)
            os.setpriority(os.PRIO_PROCESS, me, high)
        except PermissionError:
            return
        allowed.append(True)

    probe = threading.Thread(target=try_both, name="renice-probe")
    probe.start()
    probe.join()
    return bool(allowed)
