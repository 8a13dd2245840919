"""The predictor port, around anything that can say how long batches execute.

Adds what all predictors share: the book of what runs, solo times, overheads and transfers, bounds,
and the way through the queue. Clamps what it is told: finite, not below the fastest that was ever
seen.

Knows batches, requests and stages. Refuses to know how neighbours slow one another.
"""

from collections.abc import Sequence
from math import ceil, isfinite
from typing import Final, Protocol

from msgspec.structs import replace

from headway.core import (
    CANDIDATE,
    UNKNOWN,
    BatchId,
    DeviceName,
    Forecast,
    ModelName,
    QueueView,
    Request,
    Run,
    SlotIndex,
    Stages,
)
from headway.predict.book import Device, Running, Said
from headway.predict.conformal import Bounds, Group
from headway.predict.ground import Ground
from headway.predict.looks import Executions, Look, Moment, scene_of
from headway.predict.outlook import Backlog
from headway.predict.residual import SlowBias
from headway.predict.scene import Neighbour
from headway.predict.services import Services
from headway.predict.stored import fields_of

__all__ = ["Frame", "Transfers"]

_VERSION: Final = 1
_MATES_TOLD: Final = 8
"""Neighbours beyond which bounds make no difference."""
_LOOK_AGAIN_MIN_NS: Final = 1_000_000
"""What is said to be left of a batch counts for bounds only if it is at least this."""
_NO_BACKLOG: Final = Backlog((), 0.0)
_NS_MAX: Final = 86_400 * 10**9
"""A day: what took longer, or would, counts as that."""


class Transfers(Protocol):
    """How long inputs and outputs are on their way, among the copies of others."""

    def transfer_ns(self, run: Run, neighbours: Sequence[Neighbour], now_ns: int) -> float:
        """Of a batch that would start now, both directions; 0 where it cannot tell."""

    def started(self, run: Run, execution_ns: float, now_ns: int) -> object:
        """A batch starts, and is expected to execute for so long."""

    def finished(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """A batch has run."""

    def dropped(self, batch_id: BatchId, now_ns: int) -> None:
        """A batch failed or was lost."""

    def state(self) -> dict[str, object]:
        """All that was learnt, as plain JSON values."""

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave."""


class Frame:
    """A predictor: what `Executions` says, with everything around it.

    Args:
        executions: the heart.
        ground: what both stand on.
        services: what is known of overheads and transfers.
        confidence: of every bound.
        transfers: knows the links; without it transfers are what they usually were.
        is_corrected: learn what responses foreseen at arrival are wrong by.

    Invariants: as of `Predictor`; and what is kept is bounded, whatever it is told.
    """

    def __init__(
        self,
        executions: Executions,
        ground: Ground,
        services: Services,
        *,
        confidence: float = 0.95,
        transfers: Transfers | None = None,
        is_corrected: bool = False,
    ) -> None:
        self._executions = executions
        self._ground = ground
        self._services = services
        self._bounds = Bounds(confidence)
        self._transfers = transfers
        self._responses = SlowBias() if is_corrected else None

    @property
    def name(self) -> str:
        """By which it is chosen."""
        return self._executions.name

    def service_ns(self, model: ModelName, rows: int) -> int:
        """Usual service among today's neighbours, else alone; 0 while nothing is known."""
        seen_ns = self._services.service_ns(model, rows)
        if seen_ns > 0.0:
            return ceil(seen_ns)
        alone_ns = self._ground.solo.any_ns(model, rows)
        return ceil(alone_ns + self._services.overhead_ns(model)) if alone_ns > 0.0 else 0

    def solo_ns(self, model: ModelName, rows: int) -> int:
        """Execution alone, with the usual overhead and transfers; 0 while nothing is known."""
        alone_ns = self._ground.solo.any_ns(model, rows)
        if alone_ns <= 0.0:
            return 0
        around_ns = self._services.overhead_ns(model) + self._services.transfer_ns(model, rows)
        return ceil(alone_ns + around_ns)

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """The fastest service of this size; 0 before the first."""
        return self._services.floor_ns(model, rows)

    def forecast(
        self, candidate: Run | None, device: DeviceName, queue: QueueView, now_ns: int
    ) -> Sequence[Forecast]:
        """The candidate's, were it started now, then that of each batch on the device."""
        place = self._ground.devices.get(device) if candidate is None else None
        if candidate is not None:
            place = self._ground.device_for(candidate)
        if place is None:
            return ()
        return self._forecasts(self._moment(place, candidate, queue, now_ns))

    def beside(self, candidate: Run | None, device: DeviceName, now_ns: int) -> Sequence[Forecast]:
        """The same if nothing else ever came, which costs a quarter."""
        place = self._ground.devices.get(device)
        if place is None:
            return ()
        running = None if candidate is None else self._ground.running_of(candidate, place)
        return self._forecasts(Moment(place, running, _NO_BACKLOG, 0, now_ns, is_closed=True))

    def _forecasts(self, moment: Moment) -> list[Forecast]:
        looks = self._executions.look(moment)
        forecasts: list[Forecast] = []
        if moment.candidate is not None:
            forecasts.append(self._starting(moment, looks[0]))
            looks = looks[1:]
        for running, look in zip(moment.device.running.values(), looks, strict=True):
            forecasts.append(self._left(running, look))
        return forecasts

    def foresee(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """What a request that arrives now will take, behind the queue."""
        place = self._place_for(request, queue, now_ns)
        if place is None:
            return UNKNOWN
        backlog = self._ground.backlog(place, queue, request)
        if backlog.last is None or backlog.last.work_ns <= 0.0:
            return UNKNOWN
        run = _run_of(request, place)
        moment = Moment(place, self._ground.running_of(run, place), backlog, queue.count, now_ns)
        passage = self._executions.passage(moment, backlog.last)
        look = Look(passage.execution_ns, 1.0)
        parts = self._parts(moment, look)
        queue_ns = _sound(passage.start_ns, 0.0)
        return self._bounded_response(request, parts, queue_ns)

    def admitted(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """A request is let in: it is foreseen, and its work counts in the rates of arrivals."""
        foreseen = self.foresee(request, queue, now_ns)
        self.arrived(request, now_ns)
        return foreseen

    def arrived(self, request: Request, now_ns: int) -> None:
        """A request is let in of which nothing is to be said."""
        work_ns = self._ground.work_ns(request)
        self._ground.arrivals.arrive(
            request.model, request.priority, request.slot_class, work_ns, now_ns
        )

    def started(self, run: Run, queue: QueueView, now_ns: int) -> Forecast:
        """A batch starts; what is expected of it, and of those beside it from now on."""
        place = self._ground.device_for(run)
        moment = self._moment(place, run, queue, now_ns)
        looks = self._executions.look(moment)
        candidate = moment.candidate
        assert candidate is not None
        candidate.left_groups = _left_groups(run)
        forecast = self._starting(moment, looks[0])
        if candidate.base_ns > 0.0:
            execution_ns = float(forecast.execution_ns)
            scene = scene_of(moment, candidate, tuple(place.running.values()))
            groups = _start_groups(run, len(place.running))
            candidate.said = Said(forecast, execution_ns, looks[0].slowdown, scene, groups)
        for running, look in zip(place.running.values(), looks[1:], strict=True):
            if running.look is None and running.said is not None:
                running.look = (now_ns, self._left(running, look))
        self._ground.start(candidate, place, now_ns)
        if self._transfers is not None:
            self._transfers.started(run, float(forecast.execution_ns), now_ns)
        return forecast

    def began(self, run: Run, now_ns: int) -> None:
        """A batch starts of which nothing is to be said; those beside it feel it all the same."""
        place = self._ground.device_for(run)
        running = self._ground.running_of(run, place)
        running.left_groups = _left_groups(run)
        self._ground.start(running, place, now_ns)
        if self._transfers is not None:
            self._transfers.started(run, self._services.service_ns(run.model, run.rows), now_ns)

    def went(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """A batch of which nothing was said has run; nothing is learnt but of its neighbours."""
        self._ground.drop(batch_id, now_ns)
        if self._transfers is not None:
            self._transfers.finished(batch_id, stages, now_ns)

    def finished(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """A batch has run: everything is learnt from it."""
        stages = _clamped(stages)
        execution_ns = _execution_of(stages)
        stay = self._ground.end(batch_id, execution_ns, now_ns)
        if self._transfers is not None:
            self._transfers.finished(batch_id, stages, now_ns)
        if stay is None or execution_ns <= 0:
            return
        running = stay.running
        self._services.see(running.run, stages, execution_ns)
        if running.said is None:
            return
        self._executions.learn(stay, execution_ns)
        said = running.said.forecast
        self._bounds.see(running.said.groups, said.mean_ns, said.bound_ns, stages.service_ns)
        if running.look is not None:
            at_ns, left = running.look
            if left.mean_ns >= _LOOK_AGAIN_MIN_NS:
                took_ns = now_ns - at_ns
                self._bounds.see(running.left_groups, left.mean_ns, left.bound_ns, took_ns)

    def dropped(self, batch_id: BatchId, now_ns: int) -> None:
        """A batch failed or was lost."""
        self._ground.drop(batch_id, now_ns)
        if self._transfers is not None:
            self._transfers.dropped(batch_id, now_ns)

    def answered(self, request: Request, foreseen: Forecast, now_ns: int) -> None:
        """A request has its answer: what had been foreseen of it is compared."""
        if foreseen.mean_ns <= 0:
            return
        took_ns = max(now_ns - request.arrived_at_ns, 1)
        if self._responses is not None:
            self._responses.learn(foreseen.mean_ns, took_ns)
        groups = _response_groups(request, foreseen.queue_ns)
        self._bounds.see(groups, foreseen.mean_ns, foreseen.bound_ns, took_ns)

    def install(self, count: int) -> None:
        """Nothing is fitted in the background, unless a subclass says so."""

    def state(self) -> dict[str, object]:
        """All that was learnt, as plain JSON values, with what it depends on."""
        return {
            "version": _VERSION,
            "name": self.name,
            "key": self._key(),
            "ground": self._ground.state(),
            "services": self._services.state(),
            "executions": self._executions.state(),
            "bounds": self._bounds.state(),
            "responses": None if self._responses is None else self._responses.state(),
            "transfers": None if self._transfers is None else self._transfers.state(),
        }

    def restore(self, state: object) -> bool:
        """Take up what `state` gave.

        Returns:
            False where it is of another version, predictor or set of slots; nothing of it
            is then taken. What does not fit inside one that is taken is ignored.
        """
        fields = fields_of(state)
        known = (fields.get("version"), fields.get("name"), fields.get("key"))
        if known != (_VERSION, self.name, self._key()):
            return False
        self._ground.restore(fields.get("ground"))
        self._services.restore(fields.get("services"))
        self._executions.restore(fields_of(fields.get("executions")))
        self._bounds.restore(fields.get("bounds"))
        if self._responses is not None:
            self._responses.restore(fields.get("responses"))
        if self._transfers is not None:
            self._transfers.restore(fields_of(fields.get("transfers")))
        return True

    def _key(self) -> dict[str, object]:
        slots = {name: list(device.slot_lanes) for name, device in self._ground.devices.items()}
        return {"slots": slots}

    def _moment(self, place: Device, run: Run | None, queue: QueueView, now_ns: int) -> Moment:
        candidate = None if run is None else self._ground.running_of(run, place)
        backlog = self._ground.backlog(place, queue)
        return Moment(place, candidate, backlog, queue.count, now_ns)

    def _place_for(self, request: Request, queue: QueueView, now_ns: int) -> Device | None:
        """Of the devices of its model, the one with the least work left a lane."""
        params = queue.params(request.model)
        if params is None:
            return None
        devices = self._ground.devices
        places = [devices[name] for name in params.devices if name in devices]
        return min(places, key=lambda place: place.crowd(now_ns), default=None)

    def _starting(self, moment: Moment, look: Look) -> Forecast:
        """Of the candidate."""
        candidate = moment.candidate
        assert candidate is not None
        if candidate.base_ns <= 0.0:
            return UNKNOWN
        parts = self._parts(moment, look)
        groups = _start_groups(candidate.run, len(moment.device.running))
        bound_ns = ceil(parts.mean_ns * self._bounds.factor(groups))
        return replace(parts, batch_id=candidate.run.batch_id, bound_ns=bound_ns)

    def _parts(self, moment: Moment, look: Look) -> Forecast:
        """Terms of a service, without a bound."""
        candidate = moment.candidate
        assert candidate is not None
        run, base_ns = candidate.run, candidate.base_ns
        fastest_ns = self._ground.solo.floor_ns(run.model, run.rows)
        floor_ns = min(float(fastest_ns), base_ns) if fastest_ns else base_ns
        execution_ns = max(_sound(look.execution_ns, base_ns), floor_ns)
        alone_ns = ceil(min(base_ns, execution_ns))
        overhead_ns = ceil(self._services.overhead_ns(run.model))
        transfer_ns = ceil(self._transfer_ns(moment, run))
        interference_ns = max(0, ceil(execution_ns) - alone_ns)
        mean_ns = overhead_ns + transfer_ns + alone_ns + interference_ns
        return Forecast(
            mean_ns=mean_ns,
            bound_ns=mean_ns,
            overhead_ns=overhead_ns,
            base_ns=alone_ns,
            transfer_ns=transfer_ns,
            interference_ns=interference_ns,
        )

    def _transfer_ns(self, moment: Moment, run: Run) -> float:
        if self._transfers is not None:
            device, now_ns = moment.device, moment.now_ns
            neighbours = [
                Neighbour(other.run, other.base_ns, device.elapsed_left_ns(other, now_ns))
                for other in device.running.values()
            ]
            known_ns = _sound(self._transfers.transfer_ns(run, neighbours, now_ns), 0.0)
            if known_ns > 0.0:
                return known_ns
        return self._services.transfer_ns(run.model, run.rows)

    def _left(self, running: Running, look: Look) -> Forecast:
        """Of a batch that runs: execution, and the way back."""
        run = running.run
        if running.base_ns <= 0.0:
            return Forecast(batch_id=run.batch_id, mean_ns=0, bound_ns=0)
        back_ns = 0.5 * self._services.overhead_ns(run.model)
        mean_ns = ceil(_sound(look.execution_ns, running.base_ns) + back_ns)
        bound_ns = ceil(mean_ns * self._bounds.factor(running.left_groups))
        return Forecast(batch_id=run.batch_id, mean_ns=mean_ns, bound_ns=bound_ns)

    def _bounded_response(self, request: Request, parts: Forecast, queue_ns: float) -> Forecast:
        """A service with its queue before it, corrected and bounded."""
        whole_ns = queue_ns + parts.mean_ns
        if self._responses is not None:
            whole_ns *= self._responses.factor
        # What a correction adds or takes belongs to the wait; the service was corrected already.
        queue_ns = max(0, ceil(whole_ns) - parts.mean_ns)
        mean_ns = parts.mean_ns + int(queue_ns)
        factor = self._bounds.factor(_response_groups(request, int(queue_ns)))
        return replace(
            parts, mean_ns=mean_ns, bound_ns=ceil(mean_ns * factor), queue_ns=int(queue_ns)
        )


def _sound(value_ns: float, otherwise_ns: float) -> float:
    """A time that is finite, not negative and not absurd."""
    return min(max(value_ns, 0.0), _NS_MAX) if isfinite(value_ns) else otherwise_ns


def _clamped(stages: Stages) -> Stages:
    """The same, each within 0 and a day."""
    return Stages(
        service_ns=min(max(stages.service_ns, 0), _NS_MAX),
        transfer_in_ns=min(max(stages.transfer_in_ns, 0), _NS_MAX),
        execution_ns=min(max(stages.execution_ns, 0), _NS_MAX),
        transfer_out_ns=min(max(stages.transfer_out_ns, 0), _NS_MAX),
    )


def _execution_of(stages: Stages) -> int:
    """The timed execution; the whole service where no stage was timed."""
    if stages.execution_ns > 0:
        return stages.execution_ns
    return max(0, stages.service_ns - stages.transfer_in_ns - stages.transfer_out_ns)


def _run_of(request: Request, place: Device) -> Run:
    """A batch of one request, somewhere on a device."""
    return Run(
        batch_id=CANDIDATE,
        model=request.model,
        bucket=request.bucket,
        rows=request.rows,
        payload_bytes=request.payload_bytes,
        device=place.name,
        slot=SlotIndex(0),
        lane=place.lanes[0],
        slot_class=request.slot_class,
        priority=request.priority,
    )


def _start_groups(run: Run, mates: int) -> tuple[Group, ...]:
    crowd = str(min(mates, _MATES_TOLD))
    return _groups(f"start {run.slot_class}", run.model, crowd)


def _left_groups(run: Run) -> tuple[Group, ...]:
    head = f"left {run.slot_class}"
    return ((f"{head} {run.model}",), (head,))


def _response_groups(request: Request, queue_ns: int) -> tuple[Group, ...]:
    wait = "waits" if queue_ns > 0 else "starts"
    return _groups(f"response {request.slot_class}", request.model, wait)


def _groups(head: str, model: ModelName, circumstance: str) -> tuple[Group, ...]:
    """A model in a circumstance, the model, all models in the circumstance, all."""
    own = f"{head} {model}"
    return ((own, circumstance), (own,), (head, circumstance), (head,))
