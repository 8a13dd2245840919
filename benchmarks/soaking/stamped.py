"""A server whose models stamp their answers, and requests to them: who answered, and to whom.

Knows the management calls and one form of a request. Refuses to know what is measured.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import harness

from soaking.models import MODELS
from soaking.process import Process, count_of

__all__ = ["Held", "StampedAnswer", "StampedServer", "answer_of", "configuration", "request"]


class StampedAnswer(NamedTuple):
    """What came back."""

    row: list[float]
    version: str

    @property
    def stamp(self) -> int:
        """Of the version that computed it."""
        return int(self.row[-1])

    def is_right(self, number: int) -> bool:
        """Whether it is this request's, and of the version that it says."""
        return self.row[:-1] == row_of(number) and self.version == str(max(1, self.stamp))


class Held(NamedTuple):
    """What the server's processes hold."""

    mib: float
    descriptors: int
    """And threads."""
    workers: int


def row_of(number: int) -> list[float]:
    """What a request carries."""
    return [float(number % (1 << 20)), 1.0, 2.0, float(number % 7)]


def request(number: int, model: str = "stamped") -> bytes:
    """A whole HTTP request."""
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": row_of(number)}
    body = json.dumps({"inputs": [tensor]}).encode()
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def answer_of(body: bytes) -> StampedAnswer:
    """A completed answer."""
    value = json.loads(body)
    return StampedAnswer(value["outputs"][0]["data"], value["model_version"])


def configuration(port: int, *models: str, service_ms: float = 2.0, **server: Any) -> str:
    """Models that stamp, one row a batch where they are slow, so that requests wait."""
    return json.dumps(
        {
            "server": {"port": port, "admin": {"can_override": True}, **server},
            "models": [
                {
                    "name": name,
                    "path": f"{MODELS}:Stamped",
                    "options": {"service_ms": service_ms},
                    "batch": {"rows_max": 4 if service_ms < 10 else 1},
                }
                for name in models
            ],
            "devices": [{"slots_per_core": 1, "cores": [0], "pin": False}],
        }
    )


class StampedServer(Process):
    """A server of stamping models."""

    def load(self, model: str, stamp: int) -> None:
        """Load or reload a model as a version that stamps so.

        Raises:
            LoadFailedError: it said no.
        """
        config = {"version": str(max(1, stamp)), "options": {"stamp": stamp, "service_ms": 2.0}}
        self._manage(model, "load", {"parameters": {"config": json.dumps(config)}})

    def unload(self, model: str) -> None:
        """Unload a model.

        Raises:
            LoadFailedError: it said no.
        """
        self._manage(model, "unload", {})

    def ask(self, model: str, number: int) -> StampedAnswer:
        """One request and its answer.

        Raises:
            LoadFailedError: there was none.
        """
        body = request(number).partition(b"\r\n\r\n")[2]
        status, answer = harness.Http(self.port).post(f"/v2/models/{model}/infer", body)
        if status != 200:
            raise harness.LoadFailedError(f"{status}: {answer[:300]!r}")
        return answer_of(answer)

    def held(self) -> Held:
        """What its processes hold now."""
        pids = [self.pid, *self.workers()]
        return Held(
            harness.rss_mib(pids),
            sum(count_of(f"/proc/{pid}/{what}") for pid in pids for what in ("fd", "task")),
            len(pids) - 1,
        )

    def _manage(self, model: str, what: str, value: object) -> None:
        path = f"/v2/repository/models/{model}/{what}"
        body = json.dumps(value).encode()
        status, answer = harness.Http(self.port, timeout_s=60).post(path, body)
        if status != 200:
            raise harness.LoadFailedError(f"{what} of {model}: {status} {answer[:300]!r}")
