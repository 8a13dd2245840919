"""An emulated machine with accelerators: how long its batches take, beside whatever else runs.

Knows a description of the machine, the demands of models, and chance from a seed. Refuses to know
which clock it is played on: the simulator and a live executor drive the same object. Every figure
that comes from it is an emulated one, and must be labelled so.

A batch is copied in over the buses (`emulated_links.py`), executes, and is copied out. Its
execution is slowed by everything that executes on its device, by a law whose form is not that of
any predictor here, so that predicting it is no mere inversion:

    slowdown = clock * crowding * cache * class, each at least 1 and 1 alone, where
    clock    = c(O) / c(own occupancy), c(o) = 1 + drop * (1 - exp(-2 o)), O = sum of occupancies
    crowding = (1 + max(0, O - max(own, threshold))) ^ (exponent * (1 + own occupancy) / 2)
    cache    = 1 + own bandwidth * loss * X^h / (half^h + X^h),   X = others' bandwidth demand
    class    = 1 + yield * (occupancy of the high batches beside it), for a low batch only

and the solo execution itself scatters: log-normal noise, and a pause of random length at each
kernel launch, longer the more batches launch kernels through the same driver.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from math import ceil, exp, inf, log
from random import Random
from typing import Annotated, Final, NamedTuple, Self

import msgspec
from msgspec import Meta, Struct

from headway.core import BatchId, DeviceName, ModelName, SlotClass
from headway.devices.emulated_links import Buses, BusLaw, Move
from headway.errors import ConfigError
from headway.predict import Direction, Link, LinkTree
from headway.units import parse_duration_ns

__all__ = [
    "Accelerator",
    "EmulatedBatch",
    "EmulatedEnd",
    "EmulatedMachine",
    "EmulatedModel",
    "ExecutionLaw",
    "accelerator",
    "accelerator_names",
]

_EPSILON_NS: Final = 1e-3
_OPTION_FIELDS: Final = {"solo": "solo_ns", "row": "row_ns"}
_CLOCK_SPEED: Final = 2.0
"""How fast the clock drops with occupancy: most of the drop is there at full occupancy."""


class ExecutionLaw(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The constants of the slowdown; see the module."""

    clock_drop_ratio: float
    occupancy_threshold: float
    """Below this sum of occupancies kernels do not wait for each other."""
    crowding_exponent: float
    cache_loss: float
    cache_half: float
    cache_exponent: float
    class_yield: float
    noise_cv: float
    """Standard deviation over mean of a solo execution."""
    launch_jitter_ns: float
    """Mean pause at a kernel's launch for each batch that executes on the device."""

    def slowdown(self, run: "_Run", beside: "Sequence[_Run]") -> float:
        """Factor of at least 1 on one batch's execution; ``beside`` includes itself."""
        occupancy = sum(other.occupancy for other in beside)
        bandwidth = sum(other.model.bandwidth for other in beside if other is not run)
        clock = self._clock(occupancy) / self._clock(run.occupancy)
        excess = max(0.0, occupancy - max(run.occupancy, self.occupancy_threshold))
        crowding = (1 + excess) ** (self.crowding_exponent * (0.5 + run.occupancy / 2))
        power = bandwidth**self.cache_exponent
        filled = power / (self.cache_half**self.cache_exponent + power)
        cache = 1 + run.model.bandwidth * self.cache_loss * filled
        above = 0.0
        if run.batch.slot_class is SlotClass.LOW:
            above = sum(o.occupancy for o in beside if o.batch.slot_class is SlotClass.HIGH)
        return float(clock * crowding * cache * (1 + self.class_yield * above))

    def _clock(self, occupancy: float) -> float:
        return 1 + self.clock_drop_ratio * (1 - exp(-_CLOCK_SPEED * occupancy))


class Accelerator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A machine as its file describes it."""

    name: str
    about: str
    """Where its numbers come from."""
    slots: int
    """Batches that a device executes at once."""
    memory_bytes: int
    links: tuple[Link, ...]
    device_links: tuple[str, ...]
    """Where each of its devices hangs, the first first."""
    launch_ns: int
    chunk_bytes: int
    buses: BusLaw
    execution: ExecutionLaw

    def tree(self, devices: Sequence[DeviceName]) -> LinkTree:
        """The rated links, as a predictor would be told of them.

        Raises:
            ConfigError: more devices than the machine has.
        """
        if not 1 <= len(devices) <= len(self.device_links):
            raise ConfigError(
                f"`{self.name}` has 1 to {len(self.device_links)} devices, not {len(devices)}",
                hint=f"accelerators: {', '.join(accelerator_names())}",
            )
        return LinkTree(
            links=self.links,
            devices=dict(zip(devices, self.device_links, strict=False)),
            launch_ns=self.launch_ns,
            chunk_bytes=self.chunk_bytes,
        )


class EmulatedModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model asks of an emulated device."""

    name: ModelName
    solo_ns: Annotated[int, Meta(gt=0)]
    """Execution of one row, alone."""
    row_ns: Annotated[int, Meta(ge=0)]
    """What each further row adds."""
    occupancy: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Part of the device's compute that one row keeps busy, 0 to 1."""
    occupancy_full_rows: int = 1
    """From this batch size on the occupancy is 1, if one row leaves some free."""
    bandwidth: Annotated[float, Meta(ge=0, le=1)]
    """Part of its memory bandwidth that the model takes, 0 to 1."""
    kernels: Annotated[int, Meta(ge=1)] = 1
    """Launches of one execution."""
    in_bytes: int = 0
    """Of one row."""
    out_bytes: int = 0

    @classmethod
    def of(cls, name: ModelName, options: Mapping[str, str | int | float | bool]) -> Self:
        """A model from what a configuration says: ``solo`` and ``row`` are durations.

        Raises:
            ConfigError: an option is missing, unknown, or out of its range.
        """
        given = {_OPTION_FIELDS.get(key, key): value for key, value in options.items()}
        try:
            for key in ("solo_ns", "row_ns"):
                if key in given:
                    given[key] = parse_duration_ns(str(given[key]))
            return msgspec.convert({"name": name, "row_ns": 0, "bandwidth": 0.5, **given}, cls)
        except (ValueError, msgspec.ValidationError) as error:
            raise ConfigError(
                f"model `{name}` cannot be emulated: {error}",
                hint='it needs `solo: "3ms"`; also row, occupancy, bandwidth, kernels',
            ) from error

    def occupancy_of(self, rows: int) -> float:
        """The compute that a batch keeps busy: the rest is filled as rows are added."""
        if self.occupancy_full_rows <= 1 or rows <= 1:
            return self.occupancy
        filled = min(1.0, (rows - 1) / (self.occupancy_full_rows - 1))
        return self.occupancy + (1 - self.occupancy) * filled


class EmulatedBatch(NamedTuple):
    """A batch as the machine sees it."""

    batch_id: BatchId
    model: ModelName
    rows: int
    device: DeviceName
    slot_class: SlotClass
    in_bytes: int | None = None
    """None for the model's bytes of so many rows."""
    out_bytes: int | None = None


class EmulatedEnd(NamedTuple):
    """A batch has run."""

    batch_id: BatchId
    at_ns: int
    transfer_in_ns: int
    execution_ns: int
    transfer_out_ns: int


class _Run:
    """A batch on the machine; all of its chance was drawn when it started."""

    __slots__ = ("batch", "left_ns", "model", "occupancy", "out", "since_ns", "stage_ns")

    def __init__(self, batch: EmulatedBatch, model: EmulatedModel, work_ns: float) -> None:
        self.batch = batch
        self.model = model
        self.occupancy = model.occupancy_of(batch.rows)
        self.left_ns = work_ns
        """Solo execution still to do."""
        self.out: Move | None = None
        self.since_ns = 0.0
        """Start of its present stage."""
        self.stage_ns: list[float] = []

    def fork(self) -> "_Run":
        run = _Run(self.batch, self.model, self.left_ns)
        run.out, run.since_ns, run.stage_ns = self.out, self.since_ns, list(self.stage_ns)
        return run


class _Course:
    """What runs on a machine and how it goes on: no chance is left in it."""

    __slots__ = ("buses", "executing", "law", "now_ns", "runs")

    def __init__(self, law: ExecutionLaw, buses: Buses, devices: Iterable[DeviceName]) -> None:
        self.law = law
        self.buses = buses
        self.runs: dict[BatchId, _Run] = {}
        self.executing: dict[DeviceName, list[_Run]] = {device: [] for device in devices}
        self.now_ns = 0.0

    def fork(self, chance: Random | None = None) -> "_Course":
        """The same state, to be moved on its own; copies that are added draw from that chance."""
        course = _Course(self.law, self.buses.fork(chance), ())
        course.now_ns = self.now_ns
        course.runs = {batch_id: run.fork() for batch_id, run in self.runs.items()}
        course.executing = {
            device: [course.runs[run.batch.batch_id] for run in runs]
            for device, runs in self.executing.items()
        }
        return course

    def drop(self, batch_id: BatchId) -> None:
        """Without this batch."""
        run = self.runs.pop(batch_id, None)
        if run is not None:
            self.buses.remove(batch_id)
            executing = self.executing[run.batch.device]
            executing[:] = [other for other in executing if other is not run]

    def pass_to(self, at_ns: float, ends: dict[BatchId, EmulatedEnd]) -> None:
        """Move on to an instant; note what ends on the way."""
        while self.now_ns < at_ns and self.runs:
            self.step(at_ns, ends)
        self.now_ns = max(self.now_ns, at_ns)

    def step(self, until_ns: float, ends: dict[BatchId, EmulatedEnd]) -> None:
        """Move on to the next event, or to the instant given."""
        step_ns = min(until_ns - self.now_ns, self.buses.next_ns())
        rates = [
            (run, 1 / self.law.slowdown(run, runs))
            for runs in self.executing.values()
            for run in runs
        ]
        for run, rate in rates:
            step_ns = min(step_ns, run.left_ns / rate)
        self.now_ns += step_ns
        ended = self.buses.advance(step_ns)
        for run, rate in rates:
            run.left_ns -= step_ns * rate
            if run.left_ns < _EPSILON_NS:
                self.executing[run.batch.device].remove(run)
                self._end_stage(run)
                assert run.out is not None, "what comes out was drawn at the start"
                self.buses.add(run.out.fork())
        for batch_id in ended:
            self._end_copy(self.runs[BatchId(batch_id)], ends)

    def _end_stage(self, run: _Run) -> None:
        run.stage_ns.append(self.now_ns - run.since_ns)
        run.since_ns = self.now_ns

    def _end_copy(self, run: _Run, ends: dict[BatchId, EmulatedEnd]) -> None:
        self._end_stage(run)
        if len(run.stage_ns) == 1:
            self.executing[run.batch.device].append(run)
            return
        batch_id = run.batch.batch_id
        del self.runs[batch_id]
        at_ns = ceil(self.now_ns - _EPSILON_NS)
        ends[batch_id] = EmulatedEnd(batch_id, at_ns, *(round(ns) for ns in run.stage_ns))


class EmulatedMachine:
    """Batches on the devices of one machine, moved from event to event.

    Invariants: the same seed and calls give the same times; time never goes back; a batch takes at
    least its launches, its bytes at the rated capacities, and its drawn solo execution.
    Cost: some 20 us an event; a batch has three, and one for each chunk of its copies.
    """

    def __init__(
        self,
        machine: Accelerator,
        models: Iterable[EmulatedModel],
        devices: Sequence[DeviceName],
        seed: int,
    ) -> None:
        self.machine = machine
        self.devices = tuple(devices)
        self._models = {model.name: model for model in models}
        self._chance = Random(f"{seed}/emulated/execution")
        self._buses = Buses(
            machine.tree(devices), machine.buses, Random(f"{seed}/emulated/transfer")
        )
        self._course = _Course(machine.execution, self._buses, devices)
        self._ended: dict[BatchId, EmulatedEnd] = {}

    def fork(self) -> "EmulatedMachine":
        """The same machine at this instant, chance included, to be moved on its own.

        Whoever starts the same batches on both, in the same order, sees the same times.
        """
        fork = object.__new__(EmulatedMachine)
        fork.machine, fork.devices, fork._models = self.machine, self.devices, self._models
        fork._chance = _copied(self._chance)
        fork._course = self._course.fork(_copied(self._buses.chance))
        fork._buses = fork._course.buses
        fork._ended = dict(self._ended)
        return fork

    def pass_to_end(self, until_ns: int) -> EmulatedEnd | None:
        """Let time pass to the end of the next batch, which is told; None if none ends by then."""
        course, ended = self._course, self._ended
        while not ended and course.runs and course.now_ns < until_ns:
            course.step(float(until_ns), ended)
        first = next(iter(ended), None)
        return None if first is None else ended.pop(first)

    def know(self, model: EmulatedModel) -> None:
        """A model may be run from now on; one of the same name is replaced."""
        self._models[model.name] = model

    def forget(self, name: ModelName) -> None:
        """A model will not be started again; what runs of it goes on."""
        self._models.pop(name, None)

    def start(self, batch: EmulatedBatch, now_ns: int) -> None:
        """A batch is handed to its device.

        Raises:
            KeyError: no such model or device.
        """
        course = self._course
        model = self._models[batch.model]
        course.pass_to(float(now_ns), self._ended)
        executing = len(course.executing[batch.device])
        run = _Run(batch, model, self._work_ns(model, batch.rows, executing))
        run.since_ns = course.now_ns
        move_in = self._move(batch, Direction.IN, batch.in_bytes, model.in_bytes)
        run.out = self._move(batch, Direction.OUT, batch.out_bytes, model.out_bytes)
        course.runs[batch.batch_id] = run
        self._buses.add(move_in)

    def advance(self, now_ns: int) -> list[EmulatedEnd]:
        """Let time pass; what ended by now and was not told yet, in order."""
        self._course.pass_to(float(now_ns), self._ended)
        ended, self._ended = list(self._ended.values()), {}
        return ended

    def drop(self, batch_id: BatchId) -> None:
        """A batch is called off, as when its device is lost; unknown ones are ignored."""
        self._course.drop(batch_id)
        self._ended.pop(batch_id, None)

    def next_ends(self, wanted: Iterable[BatchId] = ()) -> dict[BatchId, EmulatedEnd]:
        """The next batch to end if nothing is added, and the ends of those wanted that run.

        Changes nothing. Empty when nothing runs; what has ended and was not told comes first.
        """
        ends = dict(self._ended)
        course = self._course.fork()
        missing = {batch_id for batch_id in wanted if batch_id in course.runs}
        while course.runs and not (ends and missing <= ends.keys()):
            course.step(inf, ends)
        return ends

    def _move(
        self, batch: EmulatedBatch, direction: Direction, given_bytes: int | None, row_bytes: int
    ) -> Move:
        size_bytes = row_bytes * batch.rows if given_bytes is None else given_bytes
        priority = int(batch.slot_class is SlotClass.LOW)
        return self._buses.move(batch.batch_id, batch.device, direction, size_bytes, priority)

    def _work_ns(self, model: EmulatedModel, rows: int, executing: int) -> float:
        """The solo execution of one batch: scattered, with the pauses of its launches."""
        law = self.machine.execution
        solo_ns = model.solo_ns + model.row_ns * (rows - 1)
        sigma = log(1 + law.noise_cv**2) ** 0.5
        noise = self._chance.lognormvariate(-sigma * sigma / 2, sigma)
        jitter_ns = law.launch_jitter_ns * (1 + executing)
        pauses_ns = self._chance.gammavariate(model.kernels, jitter_ns) if jitter_ns else 0.0
        return solo_ns * noise + pauses_ns


def _copied(chance: Random) -> Random:
    copy = Random(0)
    copy.setstate(chance.getstate())
    return copy


def accelerator_names() -> list[str]:
    """The machines that are described here."""
    folder = files("headway.devices") / "accelerators"
    return sorted(
        entry.name.removesuffix(".json")
        for entry in folder.iterdir()
        if entry.name.endswith(".json")
    )


def accelerator(name: str) -> Accelerator:
    """A machine by its name.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in accelerator_names():
        raise ConfigError(
            f"there is no emulated accelerator `{name}`",
            hint=f"accelerators: {', '.join(accelerator_names())}",
        )
    text = (files("headway.devices") / "accelerators" / f"{name}.json").read_bytes()
    return msgspec.json.decode(text, type=Accelerator)
