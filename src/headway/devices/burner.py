"""Processes that keep cores or memory busy and count what they get done: `Burners`.

The one mechanism behind ceilings, copy bandwidth and stressors. A process of its own for each core,
because the threads of one would share an interpreter. Knows processes and pipes. Refuses to know
what a rate means.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, Self

from headway.errors import HeadwayError

__all__ = ["BurnerGroup", "Burners", "Load", "LoadKind", "OpenBurners", "Rate"]

_ANSWER_S_MAX: Final = 60.0
"""For one answer: preparing touches every page of its arrays."""
_STOP_S_MAX: Final = 5.0
_ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)


class LoadKind(StrEnum):
    """What a burner does."""

    COMPUTE = "compute"
    """Float32 matrix products in cache; counts FLOP."""
    STREAM = "stream"
    """A triad over arrays far larger than any cache; counts bytes."""
    COPY = "copy"
    """Copies of one size; counts bytes, each once."""


class Load(NamedTuple):
    """How a burner keeps busy."""

    kind: LoadKind
    size_bytes: int = 0
    """Of one array, or of one copy; computing needs none."""
    duty_ratio: float = 1.0
    """Part of the time that it works, in turns of about a millisecond."""


class Rate(NamedTuple):
    """What one burner got done between `go` and `rest`."""

    per_s: float
    """FLOP or bytes in a second on the clock."""
    per_cpu_s: float
    """In a second of its own processor time: what others take of its core does not count."""
    cpu_ratio: float
    """Part of the time that it had the core."""


class BurnerGroup(Protocol):
    """What a measurement asks of `Burners`; see there."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def prepare(self, load: Load) -> None:
        """Give all the same load; they rest."""

    def run(self, window_ns: int) -> list[Rate]:
        """Work for as long as this, and rest again."""


OpenBurners = Callable[[Sequence[int]], BurnerGroup]
"""Starts a burner on each of these cores."""


class _Reading(NamedTuple):
    amount: int
    at_ns: int
    cpu_ns: int


class _Burner:
    """One process."""

    def __init__(self, core: int, *, is_idle: bool) -> None:
        self._core = core
        self._rest = b""
        how = "idle" if is_idle else "fair"
        # Sees the same modules as we do, from the same places in the same order.
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109
        self._process = subprocess.Popen(  # noqa: S603 (the program is this very interpreter)
            [sys.executable, "-P", "-m", "headway.devices.burning", str(core), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
            bufsize=0,
        )

    def tell(self, order: str) -> None:
        """Send an order; `answer` must follow."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{order}\n".encode())
        except BrokenPipeError:
            return  # `answer` says how it ended

    def answer(self) -> _Reading:
        """Wait for the answer to an order.

        Raises:
            HeadwayError: the process ended, or takes too long.
        """
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        end_at_s = time.monotonic() + _ANSWER_S_MAX
        while b"\n" not in self._rest:
            left_s = end_at_s - time.monotonic()
            if left_s <= 0 or not select.select([fd], [], [], left_s)[0]:
                raise HeadwayError(f"the load on core `{self._core}` does not answer")
            data = os.read(fd, 4096)
            if not data:
                code = self._process.wait(_STOP_S_MAX)
                raise HeadwayError(
                    f"the load on core `{self._core}` ended with code `{code}`",
                    hint="its last words are above; it may be for want of memory",
                )
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return _Reading(*map(int, line.split()))

    def close(self) -> None:
        """End it, by force if need be."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self._process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Burners:
    """One burner for each core named; a core named twice has two. Use it in a `with` statement.

    Invariants: no process outlives the `with` statement; after `prepare` and `rest` all are at
    rest, after `go` all are at work.
    """

    def __init__(self, cores: Sequence[int], *, is_idle: bool = False) -> None:
        """Start the processes.

        Args:
            cores: where each is pinned.
            is_idle: take only what nobody else wants of the core, by the system's idle class.
        """
        self._burners: list[_Burner] = []
        self._begun: list[_Reading] = []
        try:
            for core in cores:
                self._burners.append(_Burner(core, is_idle=is_idle))
        except OSError as error:
            self.close()
            raise HeadwayError(f"cannot start a load on core `{core}`: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self, load: Load) -> None:
        """Give all the same load, and make its arrays.

        Raises:
            HeadwayError: a process has ended; memory may not suffice.
        """
        self._all(f"prepare {load.kind} {load.size_bytes} {load.duty_ratio}")

    def go(self) -> None:
        """Begin to work."""
        self._begun = self._all("go")

    def rest(self) -> list[Rate]:
        """Stop; what each got done since `go`."""
        ended = self._all("rest")
        return [_rate(first, last) for first, last in zip(self._begun, ended, strict=True)]

    def run(self, window_ns: int) -> list[Rate]:
        """Work for as long as this, and rest again."""
        self.go()
        time.sleep(window_ns / 1e9)
        return self.rest()

    def close(self) -> None:
        """End all processes."""
        while self._burners:
            self._burners.pop().close()

    def _all(self, order: str) -> list[_Reading]:
        """All are told before any is waited for, so that they act together."""
        for burner in self._burners:
            burner.tell(order)
        return [burner.answer() for burner in self._burners]


def _rate(first: _Reading, last: _Reading) -> Rate:
    amount = last.amount - first.amount
    elapsed_s = max(1, last.at_ns - first.at_ns) / 1e9
    cpu_s = (last.cpu_ns - first.cpu_ns) / 1e9
    per_cpu_s = amount / cpu_s if cpu_s > 0 else 0.0
    return Rate(amount / elapsed_s, per_cpu_s, min(1.0, cpu_s / elapsed_s))
