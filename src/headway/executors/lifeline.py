"""How a worker process ends: with the thread that started it, and at once.

Knows the system. Refuses to know what the worker does.
"""

import ctypes
import os
import signal
from typing import Final

__all__ = ["die_with", "end_now"]

_PR_SET_PDEATHSIG: Final = 1


def die_with(parent_pid: int) -> None:
    """Be killed when the parent's thread that started us ends: the second belt.

    The first is the control socket, which works as long as Python can run.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        end_now(1)


def end_now(code: int) -> None:
    """End at once: other threads may sit in native code that nobody can interrupt.

    Nothing needs flushing, as workers are started with unbuffered output.
    """
    os._exit(code)
