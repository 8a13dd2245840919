"""Devices and workers looked at every so often, in a thread of its own: drivers may block.

Knows who reads which device. Decides nothing: what is seen is for whoever asks, and what is old is
not told as if it were true now.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headway.config import Config
from headway.devices import DeviceReading, HostReader, NvmlReader, open_nvml, usable_cores
from headway.observe import Look
from headway.units import NS_PER_S

__all__ = ["DeviceWatch"]

_PERIODS_KEPT: Final = 5
_KEPT_NS_MIN: Final = 5 * NS_PER_S
_STOP_S: Final = 2.0
"""A driver that hangs is not waited for."""

_log = logging.getLogger("headway")


class _Dated(NamedTuple):
    """A look, and when it was taken."""

    look: Look
    at_ns: int


class DeviceWatch:
    """Looks from `start` to `stop`.

    Args:
        host: reads the devices that are cores.
        workers: what each worker process works for, by its id.
        now_ns: any clock that does not go back; asked from the thread.
        period_ns: from one look to the next.
        open_gpus: opens a reader of GPUs, in the thread: a driver may take seconds.

    Invariants: the event loop never waits for a device; a look that is older than some periods is
    not given out.
    """

    def __init__(
        self,
        host: HostReader,
        workers: Callable[[], Mapping[int, str]],
        now_ns: Callable[[], int],
        period_ns: int,
        *,
        open_gpus: Callable[[], NvmlReader | None] = open_nvml,
    ) -> None:
        self._host = host
        self._workers = workers
        self._now_ns = now_ns
        self._period_ns = period_ns
        self._open_gpus = open_gpus
        self._gpus: NvmlReader | None = None
        self._last = _Dated(Look(), 0)
        """One object, so that another thread never sees a look with the time of another."""
        self._has_failed = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headway-devices", daemon=True)

    @classmethod
    def build(
        cls,
        config: Config,
        workers: Callable[[], Mapping[int, str]],
        now_ns: Callable[[], int],
    ) -> "DeviceWatch | None":
        """Of a server; None where the devices are emulated, and nothing here says how they fare."""
        cores = {
            device.name: device.cores or usable_cores()
            for device in config.devices
            if device.kind == "cpu"
        }
        if not cores:
            return None
        return cls(HostReader(cores), workers, now_ns, config.observe.device_period)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def look(self) -> Look:
        """The last one; nothing where that was long ago."""
        kept_ns = max(_KEPT_NS_MIN, _PERIODS_KEPT * self._period_ns)
        last = self._last
        return last.look if self._now_ns() - last.at_ns <= kept_ns else Look()

    def _run(self) -> None:
        self._try(self._open)
        while True:
            self._try(self._look_now)
            if self._stop.wait(self._period_ns / NS_PER_S):
                break
        if self._gpus is not None:
            self._try(self._gpus.close)

    def _open(self) -> None:
        self._gpus = self._open_gpus()

    def _look_now(self) -> None:
        self._last = _Dated(self.take(), self._now_ns())
        self._has_failed = False

    def _try(self, part: Callable[[], None]) -> None:
        """Devices that cannot be read end neither the server nor the watch; they are told once."""
        try:
            part()
        except Exception as error:  # noqa: BLE001 (whatever a driver makes its binding raise)
            if not self._has_failed:
                _log.error("devices cannot be looked at", exc_info=error)
            self._has_failed = True

    def take(self) -> Look:
        """Look now. From one thread at a time."""
        workers = self._workers()
        cores = self._host.read(workers)
        gpus = [] if self._gpus is None else self._gpus.read()
        return Look(
            readings=(*cores, *gpus),
            worker_bytes=_held(cores[0], workers) if cores else {},
            worker_device_bytes={
                (worker, reading.name): held_bytes
                for reading in gpus
                for worker, held_bytes in _held(reading, workers).items()
            },
        )


def _held(reading: DeviceReading, workers: Mapping[int, str]) -> dict[str, int]:
    """Memory of each worker, its processes added up: an isolated one may have two for a while."""
    held: dict[str, int] = {}
    for pid, used_bytes in reading.processes:
        worker = workers.get(pid)
        if worker is not None and used_bytes is not None:
            held[worker] = held.get(worker, 0) + used_bytes
    return held
