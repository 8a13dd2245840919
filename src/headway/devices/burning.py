"""A process that keeps one core busy: `python -m headway.devices.burning CORE IDLE`.

Started by `Burner` only. It obeys lines on its input: `prepare KIND BYTES DUTY`, `go`, `rest`;
to each it answers one line, `AMOUNT AT_NS CPU_NS`: what it has got done since it was prepared, the
instant, and the processor time that it has used. The end of its input is its own. Knows arithmetic
and memory; refuses to know what it is for.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from headway.devices.burner import Load, LoadKind

__all__ = ["main"]

_CHUNK_NS: Final = 1_000_000
"""Of work between two looks at the input: their cost is then a thousandth."""
_MATRIX_SIZE: Final = 256
"""Three float32 matrices of 256 KiB: within most second-level caches, so no memory is needed."""
_BLOCK_BYTES: Final = 256 << 10
"""Of an array at a time, so that the intermediate stays in cache: what then moves through memory
is what a fused triad would move."""
_LINE_BYTES_MAX: Final = 4096


class _Step(NamedTuple):
    """A piece of work and how much one run of it is."""

    run: Callable[[], object]
    amount: int
    """FLOP for `compute`, bytes for the others."""


def main(core: int, *, is_idle: bool) -> None:
    """Pin this process, then obey until the input ends."""
    # An interruption is for whoever started this, and closes the input when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, {core})
    if is_idle:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    _Obedience(sys.stdin.fileno(), sys.stdout.fileno()).serve()


class _Obedience:
    """The state of one process: what it does, whether it does it, and how much it has done."""

    def __init__(self, input_fd: int, output_fd: int) -> None:
        self._input_fd = input_fd
        self._output_fd = output_fd
        self._rest = b""
        self._step = _Step(lambda: None, 0)
        self._runs = 1
        self._duty_ratio = 1.0
        self._is_working = False
        self._amount = 0

    def serve(self) -> None:
        """Work and listen in turns; while at rest, only listen."""
        while self._listen():
            if self._is_working:
                self._work()

    def _listen(self) -> bool:
        """Obey what has come, waiting for it only at rest; False at the end of the input."""
        if self._is_working and not select.select([self._input_fd], [], [], 0)[0]:
            return True
        data = os.read(self._input_fd, _LINE_BYTES_MAX)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(line.decode().split())
        return bool(data)

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["prepare", kind, size_bytes, duty_ratio]:
                load = Load(LoadKind(kind), int(size_bytes), float(duty_ratio))
                self._prepare(load)
            case ["go"]:
                self._is_working = True
            case _:
                self._is_working = False
        answer = f"{self._amount} {time.perf_counter_ns()} {time.process_time_ns()}\n"
        os.write(self._output_fd, answer.encode())

    def _prepare(self, load: Load) -> None:
        self._is_working = False
        self._step = _Step(lambda: None, 0)  # so that the old arrays go before the new ones come
        self._step = _STEPS[load.kind](load.size_bytes)
        self._step.run()  # touches every page
        started_at_ns = time.perf_counter_ns()
        self._step.run()
        once_ns = max(1, time.perf_counter_ns() - started_at_ns)
        self._runs = max(1, _CHUNK_NS // once_ns)
        self._duty_ratio = load.duty_ratio
        self._amount = 0

    def _work(self) -> None:
        run = self._step.run
        started_at_ns = time.perf_counter_ns()
        for _ in range(self._runs):
            run()
        self._amount += self._runs * self._step.amount
        if self._duty_ratio < 1:
            busy_s = (time.perf_counter_ns() - started_at_ns) / 1e9
            time.sleep(busy_s * (1 / self._duty_ratio - 1))


def _computing(_size_bytes: int) -> _Step:
    """Float32 matrix products in cache: 2 n³ FLOP each."""
    size = _MATRIX_SIZE
    left, right, product = (np.full((size, size), 0.5, np.float32) for _ in range(3))
    return _Step(lambda: np.matmul(left, right, out=product), 2 * size**3)


def _streaming(size_bytes: int) -> _Step:
    """The triad a = b + s·c over three float64 arrays of this size: 3 arrays of traffic a run.

    Lines that a store first reads are not counted, as is the custom.
    """
    count = max(1, size_bytes // 8)
    block = _BLOCK_BYTES // 8
    arrays = [np.full(count, value) for value in (0.0, 1.0, 2.0)]
    blocks = [tuple(a[i : i + block] for a in arrays) for i in range(0, count, block)]
    scaled = np.empty(block)

    def run() -> None:
        for a, b, c in blocks:
            part = scaled[: len(c)]
            np.multiply(c, 3.0, out=part)
            np.add(part, b, out=a)

    return _Step(run, 3 * 8 * count)


def _copying(size_bytes: int) -> _Step:
    """One copy between two buffers that are used again and again, as a slot's are."""
    source = np.full(size_bytes, 1, np.uint8)
    target = np.zeros(size_bytes, np.uint8)
    return _Step(lambda: np.copyto(target, source), size_bytes)


_STEPS: Final[dict[LoadKind, Callable[[int], _Step]]] = {
    LoadKind.COMPUTE: _computing,
    LoadKind.STREAM: _streaming,
    LoadKind.COPY: _copying,
}

if __name__ == "__main__":
    main(int(sys.argv[1]), is_idle=sys.argv[2] == "idle")
