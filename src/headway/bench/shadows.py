"""Several predictors on the same executions: a journal's run again, with more than one listening.

The first answers the kernel, so that every step is decided as it was recorded. The others are told
the same and asked the same, and what they say is kept beside what came. Knows a journal and the
port; a clock only where the cost of an answer is to be measured, and then it is handed in.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from headway.app import kernel_of, predictor_of
from headway.core import (
    CANDIDATE,
    UNKNOWN,
    BatchId,
    Cancel,
    Command,
    DeviceName,
    Dispatch,
    Expire,
    Fail,
    Forecast,
    ModelName,
    Predictor,
    QueueView,
    Reject,
    Request,
    RequestId,
    Run,
    Stages,
)
from headway.errors import ConfigError
from headway.observe import read_journal
from headway.report import Observation

__all__ = ["Execution", "ShadowLog", "Tee", "listen"]

Clock = Callable[[], int]
"""Nanoseconds of processor time."""


class Execution(NamedTuple):
    """A batch from its start to its end."""

    run: Run
    started_at_ns: int
    ended_at_ns: int
    stages: Stages
    seen: int
    """Executions that had ended before it started."""

    @property
    def group(self) -> str:
        """Its model and rows."""
        return group_of(self.run.model, self.run.rows)


class ShadowLog(NamedTuple):
    """What every shadow said of every execution and request that came to its end."""

    executions: list[Execution]
    by_execution: dict[str, list[Observation]]
    """Predictor -> in the order of the ends. The bound is of the service time."""
    by_response: dict[str, list[Observation]]
    """Predictor -> from admission to the answer."""
    by_expired: dict[str, list[Observation]]
    """Predictor -> requests that expired when they had already outlasted their bound: it is broken,
    but what they would have taken is not known. Actual is the time until then."""
    cost_ns: dict[str, list[int]]
    """Predictor -> processor time of each forecast for a candidate and those that run."""


class _Start(NamedTuple):
    run: Run
    at_ns: int
    seen: int
    forecasts: dict[str, Forecast]


class _Admission(NamedTuple):
    request: Request
    at_ns: int
    seen: int
    forecasts: dict[str, Forecast]


def group_of(model: ModelName, rows: int) -> str:
    """The class of an execution."""
    return f"{model} x{rows}"


class Tee:
    """A predictor that answers as the first and lets others listen.

    Invariants: a shadow is told what it would be told if it were alone; what it says changes
    nothing.
    """

    def __init__(
        self, primary: Predictor, shadows: Mapping[str, Predictor], clock: Clock | None = None
    ) -> None:
        self._primary = primary
        self._shadows = dict(shadows)
        self._clock = clock
        self._starts: dict[BatchId, _Start] = {}
        self._admissions: dict[RequestId, _Admission] = {}
        self._seen = 0
        self.log = ShadowLog(
            [],
            {name: [] for name in shadows},
            {name: [] for name in shadows},
            {name: [] for name in shadows},
            {name: [] for name in shadows},
        )

    def service_ns(self, model: ModelName, rows: int) -> int:
        """As the first says."""
        return self._primary.service_ns(model, rows)

    def solo_ns(self, model: ModelName, rows: int) -> int:
        """As the first says."""
        return self._primary.solo_ns(model, rows)

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """As the first says."""
        return self._primary.floor_ns(model, rows)

    def forecast(
        self, candidate: Run | None, device: DeviceName, queue: QueueView, now_ns: int
    ) -> Sequence[Forecast]:
        """As the first says."""
        return self._primary.forecast(candidate, device, queue, now_ns)

    def beside(self, candidate: Run | None, device: DeviceName, now_ns: int) -> Sequence[Forecast]:
        """As the first says."""
        return self._primary.beside(candidate, device, now_ns)

    def foresee(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """As the first says."""
        return self._primary.foresee(request, queue, now_ns)

    def admitted(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """As the first says; what the others say is kept until the request is answered."""
        self._admissions[request.request_id] = _Admission(
            request,
            now_ns,
            self._seen,
            {
                name: shadow.admitted(request, queue, now_ns)
                for name, shadow in self._shadows.items()
            },
        )
        return self._primary.admitted(request, queue, now_ns)

    def started(self, run: Run, queue: QueueView, now_ns: int) -> Forecast:
        """As the first says; what the others say is kept until the batch ends."""
        if self._clock is not None:
            self._time_forecasts(run, queue, now_ns, self._clock)
        forecasts = {
            name: shadow.started(run, queue, now_ns) for name, shadow in self._shadows.items()
        }
        self._starts[run.batch_id] = _Start(run, now_ns, self._seen, forecasts)
        return self._primary.started(run, queue, now_ns)

    def finished(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """Pass it on, and keep each forecast beside what came."""
        start = self._starts.pop(batch_id)
        self.log.executions.append(Execution(start.run, start.at_ns, now_ns, stages, start.seen))
        for name, forecast in start.forecasts.items():
            self.log.by_execution[name].append(
                Observation(
                    group=group_of(start.run.model, start.run.rows),
                    seen=start.seen,
                    predicted_ns=forecast.execution_ns,
                    actual_ns=max(1, stages.execution_ns),
                    bound_ns=forecast.bound_ns,
                    bounded_ns=max(1, stages.service_ns),
                )
            )
        self._seen += 1
        self._primary.finished(batch_id, stages, now_ns)
        for shadow in self._shadows.values():
            shadow.finished(batch_id, stages, now_ns)

    def dropped(self, batch_id: BatchId, now_ns: int) -> None:
        """Pass it on; there is nothing to judge."""
        del self._starts[batch_id]
        self._primary.dropped(batch_id, now_ns)
        for shadow in self._shadows.values():
            shadow.dropped(batch_id, now_ns)

    def answered(self, request: Request, foreseen: Forecast, now_ns: int) -> None:
        """Pass it on, to each with what it foresaw itself."""
        self._primary.answered(request, foreseen, now_ns)
        admission = self._admissions.pop(request.request_id)
        actual_ns = max(1, now_ns - admission.at_ns)
        for name, shadow in self._shadows.items():
            own = admission.forecasts.get(name, UNKNOWN)
            shadow.answered(request, own, now_ns)
            self.log.by_response[name].append(_of_request(admission, own, actual_ns))

    def unanswered(self, commands: Sequence[Command], now_ns: int) -> None:
        """Let go of requests that ended without an answer; a bound that they outlasted is broken.

        An expiry before the bound says nothing of it, nor does any other end.
        """
        for command in commands:
            if not isinstance(command, Expire | Cancel | Fail | Reject):
                continue
            admission = self._admissions.pop(command.request_id, None)
            if admission is None or not isinstance(command, Expire):
                continue
            took_ns = now_ns - admission.at_ns
            for name, own in admission.forecasts.items():
                if 0 < own.bound_ns < took_ns:
                    self.log.by_expired[name].append(_of_request(admission, own, took_ns))

    def install(self, count: int) -> None:
        """Of the first; the others fit as they learn."""
        self._primary.install(count)

    def state(self) -> dict[str, object]:
        """Of the first."""
        return self._primary.state()

    def restore(self, state: object) -> bool:
        """Of the first."""
        return self._primary.restore(state)

    def _time_forecasts(self, run: Run, queue: QueueView, now_ns: int, clock: Clock) -> None:
        candidate = replace(run, batch_id=CANDIDATE)
        for name, shadow in self._shadows.items():
            began_at_ns = clock()
            shadow.forecast(candidate, run.device, queue, now_ns)
            self.log.cost_ns[name].append(clock() - began_at_ns)


def _of_request(admission: _Admission, own: Forecast, took_ns: int) -> Observation:
    return Observation(
        group=group_of(admission.request.model, admission.request.rows),
        seen=admission.seen,
        predicted_ns=own.mean_ns,
        actual_ns=took_ns,
        bound_ns=own.bound_ns,
        bounded_ns=took_ns,
    )


def listen(path: Path, shadows: Mapping[str, Predictor], clock: Clock | None = None) -> ShadowLog:
    """Let predictors listen to a recorded run.

    Args:
        path: the journal.
        shadows: by name; they learn from it.
        clock: times their answers; None does not.

    Raises:
        ConfigError: not a journal, or this version would have decided otherwise.
    """
    header, records = read_journal(path)
    tee = Tee(predictor_of(header), shadows, clock)
    kernel = kernel_of(header, tee)
    with closing(records):
        for record in records:
            commands = kernel.handle(record.event, record.now_ns)
            tee.unanswered(commands, record.now_ns)
            if _dispatches(commands) != _dispatches(record.commands):
                raise ConfigError(
                    f"step {record.seq} of `{path}` is decided otherwise by this version",
                    value=str(path),
                    hint="record it anew; `headway replay` without --score shows the difference",
                )
    return tee.log


def _dispatches(commands: Sequence[Command]) -> list[tuple[object, ...]]:
    """Where and when batches start: predictions in them may differ, and do."""
    return [
        (c.batch_id, c.device, c.slot, c.request_ids) for c in commands if isinstance(c, Dispatch)
    ]
