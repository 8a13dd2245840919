"""Measured values for tests of checks: what matters is stated, the rest is healthy."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from headway.core import DeviceName, ModelName, SlotClass
from headway.devices import DeviceReading
from headway.doctor import (
    CHECKS,
    Chart,
    Course,
    Diagnosis,
    Finding,
    MachineReading,
    OtherProcess,
    ProcessReading,
    Reading,
    Role,
    diagnose,
)
from headway.doctor.course import BatchEnd, BatchPast, DeviceUse, RequestPast
from headway.testing import a_device, a_request
from headway.units import NS_PER_MS, NS_PER_S, parse_duration_ns

CPU = DeviceName("cpu:0")
MIB = 1 << 20


def asked(code: str, chart: Chart) -> Diagnosis:
    """What one check says."""
    checks = [check for check in CHECKS if check.code == code]
    assert len(checks) == 1
    return diagnose(chart, checks)


def found(code: str, chart: Chart) -> Finding:
    """The one finding of a check."""
    diagnosis = asked(code, chart)
    assert len(diagnosis.findings) == 1, diagnosis
    return diagnosis.findings[0]


def is_fine(code: str, chart: Chart) -> bool:
    """Whether a check had what it needs and found nothing."""
    return asked(code, chart).healthy == (code,)


def why_not(code: str, chart: Chart) -> str:
    """Why a check could not tell; nothing else was said."""
    diagnosis = asked(code, chart)
    assert diagnosis.findings == ()
    return diagnosis.unknown[code]


def value(finding: Finding, name: str) -> float:
    """A number of the evidence."""
    return next(float(one.value) for one in finding.evidence if one.name == name)


# --- runs -----------------------------------------------------------------------------------------


def a_batch(at_ms: float = 0, **what: object) -> BatchPast:
    """A batch of one row of `m` that took 10 ms, nearly all of it execution."""
    service_ms = float(str(what.pop("service_ms", 10)))
    execution_ms = float(str(what.pop("execution_ms", service_ms * 0.95)))
    started_at_ns = int(at_ms * NS_PER_MS)
    fields: dict[str, object] = {
        "model": ModelName("m"),
        "device": CPU,
        "slot_class": SlotClass.HIGH,
        "rows": 1,
        "payload_bytes": 256,
        "padding_bytes": 0,
        "started_at_ns": started_at_ns,
        "ended_at_ns": started_at_ns + int(service_ms * NS_PER_MS),
        "end": BatchEnd.FINISHED,
        "execution_ns": int(execution_ms * NS_PER_MS),
    }
    return BatchPast(**{**fields, **what})  # type: ignore[arg-type]


def batches(count: int, each: Callable[[int], BatchPast] | None = None) -> list[BatchPast]:
    """So many, one after another."""
    return [a_batch(10 * index) if each is None else each(index) for index in range(count)]


def requests(
    count: int, *, end: str = "completed", budget: str = "1s", took: str = "10ms", reason: str = ""
) -> list[RequestPast]:
    """Requests that ended alike."""
    return [
        RequestPast(
            request=a_request(index, at=index * NS_PER_MS, budget=budget),
            ended_at_ns=index * NS_PER_MS + parse_duration_ns(took),
            end=end,
            reason=reason,
        )
        for index in range(count)
    ]


def a_course(
    ran: Iterable[BatchPast] = (),
    *,
    asked_for: Iterable[RequestPast] = (),
    slots: int = 1,
    seconds: float = 1.0,
    busy_ratio: float = 0.9,
    starved_ratio: float = 0.0,
    rows_max: int | None = 8,
    **what: object,
) -> Course:
    """A run of a model `m` on one device."""
    total_ns = int(slots * seconds * NS_PER_S)
    busy_ns = int(busy_ratio * total_ns)
    use = DeviceUse(
        slots=slots,
        busy_ns=busy_ns,
        starved_ns=int(starved_ratio * (total_ns - busy_ns)),
    )
    fields: dict[str, object] = {
        "devices": {CPU: a_device(lanes=range(slots))},
        "to_ns": int(seconds * NS_PER_S),
        "asked_ns": int(seconds * NS_PER_S),
        "is_whole": True,
        "batches": deque(ran),
        "requests": deque(asked_for),
        "replicas": [],
        "losses": [],
        "use": {CPU: use},
        "rows_max": {} if rows_max is None else {ModelName("m"): rows_max},
    }
    return Course(**{**fields, **what})  # type: ignore[arg-type]


def run_of(ran: Iterable[BatchPast] = (), **what: object) -> Chart:
    """A chart of a run alone."""
    return Chart(course=a_course(ran, **what))  # type: ignore[arg-type]


# --- machines -------------------------------------------------------------------------------------


def watched(
    count: int, look: Callable[[int], dict[str, object]], *, every_s: float = 0.1
) -> tuple[Reading, ...]:
    """Readings, each with what `look` says of it."""
    return tuple(
        Reading(at_ns=int(index * every_s * NS_PER_S), **look(index))  # type: ignore[arg-type]
        for index in range(count)
    )


def a_process(pid: int = 2, **what: object) -> ProcessReading:
    """A worker."""
    return ProcessReading(**{"pid": pid, "role": Role.WORKER, "name": "python", **what})  # type: ignore[arg-type]


def of_memory(bytes_of: Sequence[float], *, role: Role = Role.WORKER) -> Chart:
    """A process that held so much, reading by reading."""
    return Chart(
        readings=watched(
            len(bytes_of),
            lambda i: {"processes": (a_process(role=role, memory_bytes=int(bytes_of[i])),)},
        )
    )


def a_machine(
    index: int, *, cores: int = 2, own: float = 1.0, others: float = 0.0, every_s: float = 0.1
) -> MachineReading:
    """Cores of which the server and others kept so many busy all the while."""
    at_ns = int(index * every_s * NS_PER_S)
    return MachineReading(
        cores_count=cores,
        busy_ns=int((own + others) * at_ns),
        own_ns=int(own * at_ns),
        others=(OtherProcess(99, "backup", int(others * at_ns)),),
    )


def of_devices(count: int, look: Callable[[int], dict[str, object]], **what: object) -> Chart:
    """One accelerator, read so many times."""
    return Chart(
        readings=watched(
            count,
            lambda i: {
                "devices": (DeviceReading(**{"name": "cuda:0", **look(i)}),),  # type: ignore[arg-type]
                **what,
            },
        )
    )
