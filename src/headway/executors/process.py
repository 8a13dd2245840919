"""A worker as the operating system sees it: started, listened to, ended, and its death explained.

What it prints is read as it comes, so that a chatty worker never waits for us; the last lines are
kept for the message that says how it died. Knows processes and pipes; never a model or a batch.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["OutputTail", "WorkerProcess"]

LOGGER: Final = logging.getLogger("headway.worker")
READ_BYTES: Final = 64 << 10
PIPE_BYTES: Final = 1 << 20
DRAIN_READS_MAX: Final = 32
"""What is read after death; a grandchild that still prints must not keep us here."""
LINE_CHARS_MAX: Final = 500
LINES_KEPT: Final = 20
LINES_PER_SECOND_MAX: Final = 200
"""Lines beyond are counted, not logged: a flood must not slow the server down."""
THREAD_COUNT_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Slots are the unit of concurrency: a thread pool a library beside them only adds contention."""


class OutputTail:
    """Turns what a worker prints into log lines, a bounded number a second, and keeps the last.

    Invariants: holds at most ``LINES_KEPT`` lines and one unfinished line, each bounded.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._rest = b""
        self._second = 0
        self._logged_count = 0
        self._dropped_count = 0

    def feed(self, data: bytes, now_s: float) -> None:
        """Take what was printed."""
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._add(line, int(now_s))
        self._rest = rest[: 4 * LINE_CHARS_MAX]

    def finish(self, now_s: float) -> None:
        """Nothing more will come."""
        if self._rest:
            self._add(self._rest, int(now_s))
            self._rest = b""
        self._report_dropped()

    def text(self) -> str:
        """The last lines, oldest first."""
        return "\n".join(self._lines)

    def _add(self, raw: bytes, second: int) -> None:
        line = raw[: 4 * LINE_CHARS_MAX].decode(errors="replace").rstrip()[:LINE_CHARS_MAX]
        if not line:
            return
        self._lines.append(line)
        if second != self._second:
            self._report_dropped()
            self._second, self._logged_count = second, 0
        if self._logged_count < LINES_PER_SECOND_MAX:
            self._logged_count += 1
            LOGGER.info("%s: %s", self._label, line)
        else:
            self._dropped_count += 1

    def _report_dropped(self) -> None:
        if self._dropped_count:
            LOGGER.warning("%s: %d more lines not logged", self._label, self._dropped_count)
            self._dropped_count = 0


class WorkerProcess:
    """A running child. ``on_exit`` is called once, from the loop, after it has been waited for.

    What it runs is a module, which is given the number of its control socket and our process id.

    It is started on the loop's own thread: the system ends it when that very thread ends. That
    takes a millisecond or two, once in a worker's life.
    """

    def __init__(
        self,
        label: str,
        control_fd: int,
        inherited_fds: Sequence[int],
        loop: asyncio.AbstractEventLoop,
        on_exit: Callable[[str], None],
        module: str = "headway.executors.worker",
    ) -> None:
        self._label = label
        self._loop = loop
        self._on_exit = on_exit
        self._tail = OutputTail(label)
        self._killed_because = ""
        with contextlib.ExitStack() as on_error:
            self._output_fd, written_fd = os.pipe()
            on_error.callback(os.close, self._output_fd)
            try:
                self._process = _start(module, control_fd, inherited_fds, written_fd)
            finally:
                os.close(written_fd)
            on_error.callback(self._process.wait)
            on_error.callback(self._process.kill)
            self._exit_fd = os.pidfd_open(self._process.pid)
            on_error.pop_all()
        os.set_blocking(self._output_fd, False)
        loop.add_reader(self._output_fd, self._read_output)
        loop.add_reader(self._exit_fd, self._reap)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def kill(self, because: str) -> None:
        """End it with SIGKILL; ``on_exit`` follows, and names the reason."""
        if self._process.returncode is None:
            self._killed_because = because
            self._process.kill()

    def _read_output(self) -> None:
        try:
            data = os.read(self._output_fd, READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._tail.feed(data, self._loop.time())
        else:
            self._loop.remove_reader(self._output_fd)

    def _reap(self) -> None:
        code = self._process.poll()
        if code is None:
            return
        self._loop.remove_reader(self._exit_fd)
        self._loop.remove_reader(self._output_fd)
        with contextlib.suppress(BlockingIOError):
            for _ in range(DRAIN_READS_MAX):
                data = os.read(self._output_fd, READ_BYTES)
                if not data:
                    break
                self._tail.feed(data, self._loop.time())
        self._tail.finish(self._loop.time())
        os.close(self._exit_fd)
        os.close(self._output_fd)
        self._on_exit(self._describe(code))

    def _describe(self, code: int) -> str:
        text = f"worker `{self._label}` (pid {self.pid}) {_how_it_ended(code)}"
        if self._killed_because and code == -signal.SIGKILL:
            text += f" by the server: {self._killed_because}"
        elif code == -signal.SIGKILL:
            text += ", perhaps for want of memory"
        last = self._tail.text()
        return f"{text}; its last output:\n{last}" if last else text


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed with {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed with signal {-code}"


def _start(
    module: str, control_fd: int, inherited_fds: Sequence[int], written_fd: int
) -> subprocess.Popen[bytes]:
    # Sees the same modules as we do, from the same places in the same order.
    environment = {
        **dict.fromkeys(THREAD_COUNT_VARIABLES, "1"),
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),  # noqa: PTH109
    }
    command = [sys.executable, "-P", "-u", "-m", module]
    with contextlib.suppress(OSError):
        fcntl.fcntl(written_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return subprocess.Popen(  # noqa: S603 (the program is this very interpreter)
        [*command, str(control_fd), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=written_fd,
        stderr=subprocess.STDOUT,
        pass_fds=(control_fd, *inherited_fds),
        env=environment,
    )
