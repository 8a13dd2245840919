"""One examination: a real server under a real load, watched meanwhile, diagnosed afterwards.

Knows processes, HTTP and the doctor's own functions, as its verbs call them. Refuses to know any
illness.
"""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import harness
import numpy as np
from soaking.process import Process

from headway.devices import Burners, LoadKind
from headway.devices import Load as Burning
from headway.doctor import (
    Chart,
    Diagnosis,
    Patient,
    Reading,
    chart_of,
    diagnose,
    find_patient,
    read_recorded,
    watch,
)
from headway.observe import read_exposition
from headway.units import NS_PER_MS, NS_PER_S

__all__ = [
    "EVERY_NS",
    "Case",
    "Examined",
    "Load",
    "WallClock",
    "Ward",
    "examined",
    "served",
    "under_load",
]

EVERY_NS = 100 * NS_PER_MS
WAIT_S = 60.0
POLL_S = 0.01


class WallClock:
    """The machine's own."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns()

    def sleep(self, duration_ns: int) -> None:
        """Wait."""
        time.sleep(duration_ns / NS_PER_S)


def _half(_: int) -> float:
    return 0.5


class Load(NamedTuple):
    """Clients that each send the next request when the last was answered."""

    model: str
    clients: int = 1
    every_s: float = 0.0
    """A client sends no sooner after its last request than this; 0 at once."""
    rows: Sequence[int] = (1,)
    """Of its requests, in turn."""
    columns: int = 64
    headers: Mapping[str, str] = {}
    parameters: Callable[[int], Mapping[str, object]] = lambda _: {}
    """Of a client's n-th request."""
    first: Callable[[int], float] = _half
    """Value of the first column of a client's n-th request."""


class Case(NamedTuple):
    """A server, what is sent to it, and what is to be found."""

    name: str
    config: Mapping[str, object]
    loads: Sequence[Load]
    code: str = ""
    """Of the finding; empty for a healthy server."""
    seconds: float = 2.0
    """How long it is watched, after the load has begun."""
    during: Callable[[Ward], None] | None = None
    """Done meanwhile, in a thread of its own; the watch does not end before it."""
    burnt_cores: Sequence[int] = ()
    """Cores that other processes keep busy meanwhile, one each."""


class Examined(NamedTuple):
    """What came of it."""

    diagnosis: Diagnosis
    chart: Chart
    others_cores: float
    """That others kept busy, burners aside; whatever is found of neighbours is judged by it."""


class Ward(Process):
    """A server that is watched."""

    def __init__(self, home: Path, config: Mapping[str, object]) -> None:
        port, path = harness.free_port(), home / "serve.yaml"
        self.journal = home / "run.journal"
        own = {"server": {"port": port}, "journal": {"path": str(self.journal)}}
        path.write_text(json.dumps({**config, **own}))
        super().__init__(path, port)
        self.readings: list[Reading] = []
        """So far."""

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, model: str, first: float, columns: int = 64) -> int:
        """One request of one row; the status, or 0 where it hung up."""
        body, size = _body(Load(model, columns=columns, first=lambda _: first), 0)
        try:
            return self._post(
                f"/v2/models/{model}/infer", body, {"inference-header-content-length": str(size)}
            )
        except (OSError, http.client.HTTPException):
            return 0

    def load(self, model: str) -> None:
        """Load a model.

        Raises:
            LoadFailedError: it said no.
        """
        self._manage(model, "load")

    def unload(self, model: str) -> None:
        """Unload a model.

        Raises:
            LoadFailedError: it said no.
        """
        self._manage(model, "unload")

    def is_serving(self, model: str) -> bool:
        """Whether a model is ready."""
        return self._get(f"/v2/models/{model}/ready")[0] == 200

    def losses(self) -> float:
        """Workers that have died so far."""
        text = self._get("/metrics")[1].decode()
        return read_exposition(text).total("headway_worker_losses_total") or 0.0

    def look_on(self, count: int) -> None:
        """Until it was looked at so many times more."""
        until = len(self.readings) + count
        self.wait_until(lambda: len(self.readings) >= until)

    def wait_until(self, is_so: Callable[[], object]) -> None:
        """Look again and again.

        Raises:
            LoadFailedError: it never is so.
        """
        give_up_at_s = time.monotonic() + WAIT_S
        while not is_so():
            if time.monotonic() > give_up_at_s:
                raise harness.LoadFailedError(f"waited in vain: {self.log()[-2000:]}")
            time.sleep(POLL_S)

    def end(self) -> None:
        """Have it end by itself.

        Raises:
            LoadFailedError: it did not, or not well.
        """
        self.tell(signal.SIGTERM)
        code = self.wait_ended()
        if code != 0:
            raise harness.LoadFailedError(f"the server ended with {code}: {self.log()[-2000:]}")

    def _manage(self, model: str, what: str) -> None:
        status = self._post(f"/v2/repository/models/{model}/{what}", b"{}", {})
        if status != 200:
            raise harness.LoadFailedError(f"{what} of {model}: {status} {self.log()[-2000:]}")

    def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> int:
        with closing(harness.Http(self.port, timeout_s=WAIT_S)) as client:
            return client.post(path, body, headers)[0]

    def _get(self, path: str) -> tuple[int, bytes]:
        with closing(harness.Http(self.port, timeout_s=WAIT_S)) as client:
            return client.get(path)


@contextmanager
def served(home: Path, config: Mapping[str, object]) -> Iterator[Ward]:
    """A server that is ready; gone with all its processes afterwards."""
    home.mkdir(parents=True, exist_ok=True)
    ward = Ward(home, config)
    try:
        ward.wait_ready()
        yield ward
    finally:
        ward.kill()


def examined(home: Path, case: Case) -> Examined:
    """Serve, load, watch meanwhile, stop, and diagnose from all that there is."""
    with served(home, case.config) as ward, Burners(case.burnt_cores) as burners:
        burners.prepare(Burning(LoadKind.COMPUTE))
        patient = find_patient(url=ward.url)
        with under_load(ward.port, case.loads):
            burners.go()
            readings = _watched(ward, patient, case)
            burners.rest()
        ward.end()
        chart = chart_of(patient, readings, read_recorded(journal=ward.journal))
    noise = chart.noise()
    others_cores = noise.cores - len(case.burnt_cores) if noise is not None else 0.0
    return Examined(diagnose(chart), chart, round(max(0.0, others_cores), 2))


def _watched(ward: Ward, patient: Patient, case: Case) -> list[Reading]:
    """For the case's time, and until all that is done to it meanwhile is done."""

    def look(seconds: float) -> list[Reading]:
        for_ns = int(seconds * NS_PER_S)
        return watch(
            patient, WallClock(), for_ns=for_ns, every_ns=EVERY_NS, tell=ward.readings.append
        )

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(case.during or (lambda _: None), ward)
        readings = look(case.seconds)
        while not done.done():
            readings += look(1.0)
        done.result()
    return readings


@contextmanager
def under_load(port: int, loads: Sequence[Load]) -> Iterator[None]:
    """Clients that send until the end of the `with` statement."""
    is_over = threading.Event()
    threads = [
        threading.Thread(target=_send, args=(port, load, client, is_over))
        for load in loads
        for client in range(load.clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join(WAIT_S)


def _send(port: int, load: Load, client: int, is_over: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    count = client
    next_at_s = time.monotonic()
    try:
        while not is_over.is_set():
            count += 1
            body, size = _body(load, count)
            headers = {"inference-header-content-length": str(size), **load.headers}
            try:
                connection.request("POST", f"/v2/models/{load.model}/infer", body, headers)
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()  # its worker died, or the server is going away
            next_at_s = max(next_at_s + load.every_s, time.monotonic())
            if load.every_s:
                is_over.wait(next_at_s - time.monotonic())
    finally:
        connection.close()


def _body(load: Load, count: int) -> tuple[bytes, int]:
    """Tensors as bytes, so that it is not the text of numbers that takes the time."""
    rows = load.rows[count % len(load.rows)]
    values = np.full((rows, load.columns), 0.25, np.float32)
    values[:, 0] = load.first(count)
    tensor = {
        "name": "x",
        "datatype": "FP32",
        "shape": list(values.shape),
        "parameters": {"binary_data_size": values.nbytes},
    }
    head = json.dumps(
        {
            "inputs": [tensor],
            "parameters": {"binary_data_output": True, **load.parameters(count)},
        }
    ).encode()
    return head + values.tobytes(), len(head)
