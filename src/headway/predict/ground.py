"""What every predictor stands on: who runs where, what things take alone, what is on its way.

Knows devices, runs and requests. Refuses to know how long neighbours will make anything: what it
knows of that (`Speeds`) serves to undo it, so that contended executions teach solo times.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headway.core import (
    BatchId,
    BucketKey,
    DeviceName,
    DeviceParams,
    ModelName,
    QueueView,
    Request,
    Run,
    SlotClass,
)
from headway.predict.book import Device, Running, Stay
from headway.predict.expected import ArrivalRates
from headway.predict.outlook import Backlog, backlog_of
from headway.predict.profile import ModelProfile
from headway.predict.solo import SoloTimes
from headway.predict.speeds import Experience, Speeds
from headway.predict.stored import fields_of, number_of, time_of

__all__ = ["CLASSES", "Ground"]

CLASSES: Final = (SlotClass.HIGH, SlotClass.LOW)
_DEVICES_MAX: Final = 1024
_PIECE_WEIGHT: Final = 0.02


class Ground:
    """Devices, solo times and arrivals of one server.

    Args:
        devices: what there is; one that is met but was not named gets its lane from its first run.
        profiles: what was measured beforehand.
        weights: share of a lane per class, where a slot's class counts; without it all are equal.
    """

    def __init__(
        self,
        devices: Sequence[DeviceParams] = (),
        profiles: Iterable[ModelProfile] = (),
        weights: Mapping[SlotClass, float] | None = None,
    ) -> None:
        self._profiles = tuple(profiles)
        self.solo = SoloTimes(self._profiles)
        self.arrivals = ArrivalRates()
        self.weights = dict.fromkeys(CLASSES, 1.0) | dict(weights or {})
        self.devices: dict[DeviceName, Device] = {}
        self._device_of: dict[BatchId, Device] = {}
        self.piece_ns = 0.0
        """Mean solo work of the batches that were started; 0 before the first that was known."""
        for params in devices:
            self._add(params.name, params.slot_lanes, shares_all=params.shares_all)

    def device_for(self, run: Run) -> Device:
        """The device of a run."""
        device = self.devices.get(run.device)
        if device is None and len(self.devices) >= _DEVICES_MAX:
            return next(iter(self.devices.values()))
        return device or self._add(run.device, (run.lane,) * (run.slot + 1))

    def _add(
        self, name: DeviceName, slot_lanes: Sequence[int], *, shares_all: bool = False
    ) -> Device:
        pressures = {p.model: p.pressures for p in self._profiles if p.device == name}
        lanes = len(set(slot_lanes))
        device = Device(name, slot_lanes, Speeds(lanes, pressures, shares_all=shares_all))
        self.devices[name] = device
        return device

    def running_of(self, run: Run, device: Device) -> Running:
        """A batch as it would run from now."""
        base_ns = self.solo.base_ns(device.name, run.model, run.bucket, run.rows, run.payload_bytes)
        lane = device.lane_index(run.lane)
        running = Running(run, lane, self.weights[run.slot_class], base_ns)
        running.feel = device.speeds.feel(running.size, base_ns)
        running.pace = device.speeds.pace(lane)
        return running

    def work_ns(self, request: Request) -> float:
        """Solo work of a request in a batch of its own, where its model usually runs."""
        device = self.arrivals.device_of(request.model) or next(iter(self.devices), None)
        if device is None:
            return 0.0
        return self.solo.base_ns(
            device, request.model, request.bucket, request.rows, request.payload_bytes
        )

    def backlog(self, device: Device, queue: QueueView, last: Request | None = None) -> Backlog:
        """What waits for a device; and a request behind it, if one is given."""
        base_ns = self.solo.base_ns
        name = device.name

        def work_of(model: ModelName, bucket: BucketKey, rows: int, payload_bytes: int) -> float:
            return base_ns(name, model, bucket, rows, payload_bytes)

        return backlog_of(queue, name, work_of, last)

    def start(self, running: Running, device: Device, now_ns: int) -> None:
        """A batch starts. One whose id runs already replaces that."""
        run = running.run
        self.drop(run.batch_id, now_ns)
        device.start(running, now_ns)
        self._device_of[run.batch_id] = device
        self.arrivals.went(run.model, device.name)
        if running.base_ns > 0.0:
            weight = _PIECE_WEIGHT if self.piece_ns > 0.0 else 1.0
            self.piece_ns += weight * (running.base_ns - self.piece_ns)

    def end(self, batch_id: BatchId, execution_ns: int, now_ns: int) -> Stay | None:
        """A batch has run, and what it was worth is learnt; None if it is not known."""
        device = self._device_of.pop(batch_id, None)
        stay = None if device is None else device.end(batch_id, now_ns)
        if device is None or stay is None or execution_ns <= 0:
            return stay
        running = stay.running
        self.solo.see(running.run, execution_ns)
        belief = self.solo.belief(running.run)
        if belief is None:
            self.solo.first(running.run, execution_ns / stay.slowdown)
        else:
            device.speeds.learn(self._experience(stay, device, execution_ns), belief)
        return stay

    def _experience(self, stay: Stay, device: Device, execution_ns: int) -> Experience:
        running = stay.running
        run = running.run
        base_ns = self.solo.base_ns(device.name, run.model, run.bucket, run.rows, run.payload_bytes)
        beside: dict[ModelName, float] = {}
        for overlap in stay.overlaps:
            model = overlap.run.model
            beside[model] = beside.get(model, 0.0) + overlap.ratio
        return Experience(
            running.size, running.lane, base_ns, execution_ns, stay.slowdown, stay.cells, beside
        )

    def drop(self, batch_id: BatchId, now_ns: int) -> None:
        """A batch is gone, and its time says nothing."""
        device = self._device_of.pop(batch_id, None)
        if device is not None:
            device.drop(batch_id, now_ns)

    def state(self) -> dict[str, object]:
        """Solo times, and what was learnt of each device; rates of arrivals are not kept."""
        speeds = {name: device.speeds.state() for name, device in self.devices.items()}
        return {"solo": self.solo.state(), "speeds": speeds, "piece_ns": self.piece_ns}

    def restore(self, state: object) -> None:
        """Take up what `state` gave; what does not fit is ignored."""
        fields = fields_of(state)
        self.solo.restore(fields.get("solo"))
        piece_ns = number_of(fields.get("piece_ns"))
        if piece_ns is not None and piece_ns >= 0.0:
            self.piece_ns = time_of(piece_ns)
        for name, speeds in fields_of(fields.get("speeds")).items():
            device = self.devices.get(DeviceName(name))
            if device is not None:
                device.speeds.restore(speeds)
