"""Memory that grows without end, and memory that does not come back."""

from random import Random

import pytest
from msgspec.structs import replace
from tests.unit.doctor.charts import (
    MIB,
    a_course,
    a_process,
    found,
    is_fine,
    of_devices,
    of_memory,
    value,
    watched,
    why_not,
)

from headway.core import ModelName, ReplicaId
from headway.doctor import Chart, Reading, Role, Severity
from headway.doctor.course import ReplicaPast
from headway.profiling import AllocatorPoint, DeviceActivity
from headway.units import NS_PER_S


def _noisy(
    count: int, value_of, *, seed: str = "heap", deviation: float = 0.2 * MIB
) -> list[float]:
    chance = Random(seed)
    return [value_of(i) + chance.gauss(0, deviation) for i in range(count)]


def test_leak_is_found_with_its_slope() -> None:
    """A megabyte a reading, every 100 ms, is 600 MiB a minute, through the heap's own noise."""
    finding = found("memory_leak", of_memory(_noisy(40, lambda i: 100 * MIB + i * MIB)))
    assert finding.severity is Severity.SERIOUS
    assert finding.subject == "worker `python` (pid 2)"
    assert finding.confidence_ratio > 0.999
    assert value(finding, "growth") == pytest.approx(600, rel=0.05)
    low, high = (value(finding, f"growth at {end} (99 %)") for end in ("least", "most"))
    assert low < 600 < high


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(lambda i: 100 * MIB, id="level"),
        pytest.param(lambda i: 100 * MIB + (i >= 20) * 50 * MIB, id="one jump"),
        pytest.param(lambda i: 150 * MIB - 50 * MIB * 0.8**i, id="settles"),
        pytest.param(lambda i: 100 * MIB + (i % 7) * 8 * MIB, id="saw"),
        pytest.param(lambda i: 200 * MIB - i * MIB, id="shrinks"),
        pytest.param(lambda i: 100 * MIB + i * 20_000, id="too slow to matter"),
        pytest.param(lambda i: (100 + 10 * min(i, 7)) * MIB, id="warm-up"),
    ],
)
def test_heap_that_does_not_leak_is_fine(memory) -> None:
    """Jumps, plateaus, saws and warm-ups end, and a leak does not."""
    assert is_fine("memory_leak", of_memory(_noisy(40, memory)))


def test_random_walks_of_memory_are_fine() -> None:
    """A heap that wanders by chance alarms in none of 200 runs."""
    alarmed = 0
    for seed in range(200):
        chance, at, walk = Random(f"walk {seed}"), 100.0 * MIB, []
        for _ in range(40):
            at += chance.choice((-1, 1)) * 0.5 * MIB
            walk.append(at)
        alarmed += not is_fine("memory_leak", of_memory(walk))
    assert alarmed == 0


def test_server_may_fill_what_it_remembers() -> None:
    """The scheduler's own process keeps its last steps: so much is no leak, more is one."""
    fills = [100 * MIB + i * MIB for i in range(60)]
    assert is_fine("memory_leak", of_memory(fills, role=Role.SERVER))
    assert found(
        "memory_leak", of_memory([100 * MIB + i * 4 * MIB for i in range(60)], role=Role.SERVER)
    )


def test_short_look_at_memory_is_no_diagnosis() -> None:
    """With few readings it is said that there are too few."""
    assert "watch longer" in why_not(
        "memory_leak", of_memory([100 * MIB + i * MIB for i in range(8)])
    )
    untold = Chart(readings=watched(20, lambda i: {"processes": (a_process(),)}))
    assert "not told" in why_not("memory_leak", untold)


# --- devices --------------------------------------------------------------------------------------


def test_device_leak_names_the_process() -> None:
    """Memory that one process takes of a device, among others that keep level."""
    chart = of_devices(
        40,
        lambda i: {
            "memory_used_bytes": (900 + 4 * i) * MIB,
            "processes": ((2, (500 + 4 * i) * MIB), (3, 400 * MIB)),
        },
        processes=(a_process(2, name="ocr"), a_process(3)),
    )
    finding = found("device_memory_leak", chart)
    assert finding.subject == "worker `ocr` (pid 2) on cuda:0"


def test_device_leak_of_nobody_is_what_is_left_behind() -> None:
    """Used, and held by no process that the device names: left by a context that has gone."""
    chart = of_devices(
        40,
        lambda i: {"memory_used_bytes": (900 + 4 * i) * MIB, "processes": ((2, 500 * MIB),)},
    )
    assert found("device_memory_leak", chart).subject == "cuda:0, no process that it names"


def test_device_that_does_not_tell_processes_is_judged_as_a_whole() -> None:
    """In a container a driver names no process; the sum is still told."""
    chart = of_devices(40, lambda i: {"memory_used_bytes": (900 + 4 * i) * MIB})
    assert found("device_memory_leak", chart).subject == "cuda:0, all processes"
    assert is_fine("device_memory_leak", of_devices(40, lambda i: {"memory_used_bytes": 900 * MIB}))
    assert "no device tells" in why_not("device_memory_leak", of_devices(40, lambda i: {}))


def _allocator(count: int, allocated, reserved) -> DeviceActivity:
    """Between runs and in them: a run needs 64 MiB beside what is kept."""
    return DeviceActivity(
        file="trace.json",
        memory=tuple(
            AllocatorPoint(
                i * NS_PER_S // 100,
                int((allocated(i) + 64 * (i % 2)) * MIB),
                int(reserved(i) * MIB),
            )
            for i in range(count)
        ),
    )


def test_growing_cache_of_an_allocator_is_no_leak() -> None:
    """What is reserved grows, what is allocated does not: from outside that looks like a leak."""
    activity = _allocator(400, lambda i: 500, lambda i: 700 + i)
    outside = of_devices(40, lambda i: {"memory_used_bytes": (900 + 4 * i) * MIB})
    chart = Chart(readings=outside.readings, activity=activity)
    finding = found("device_memory_leak", chart)
    assert finding.severity is Severity.NOTE
    assert "cache" in finding.title
    assert found("unreleased_tensors", chart).severity is Severity.NOTE


def test_tensors_that_are_kept_are_found_between_runs() -> None:
    """What is allocated in the quiet moments rises: those tensors nobody lets go of."""
    leaks = Chart(activity=_allocator(400, lambda i: 500 + i / 4, lambda i: 1024))
    finding = found("unreleased_tensors", leaks)
    assert finding.severity is Severity.SERIOUS
    assert value(finding, "allocated grows") == pytest.approx(80, rel=0.1)
    healthy = Chart(activity=_allocator(400, lambda i: 500, lambda i: 1024))
    assert is_fine("unreleased_tensors", healthy)
    assert "profile_memory" in why_not(
        "unreleased_tensors", Chart(activity=DeviceActivity(file="t"))
    )


# --- what does not come back ----------------------------------------------------------------------


def _cycles(memory_of, *stretches: tuple[int, int], model: str = "m") -> Chart:
    """Loads and unloads between these readings, a second apart."""
    replicas = [
        ReplicaPast(
            replica_id=ReplicaId(number),
            model=ModelName(model),
            asked_at_ns=loaded * NS_PER_S + 1,
            warmed_at_ns=loaded * NS_PER_S + 2,
            stopped_at_ns=unloaded * NS_PER_S + 1,
        )
        for number, (loaded, unloaded) in enumerate(stretches)
    ]
    readings = watched(
        40,
        lambda i: {"processes": (a_process(memory_bytes=int(memory_of(i) * MIB)),)},
        every_s=1.0,
    )
    return Chart(course=a_course(replicas=replicas), started_at_ns=0, readings=readings)


def test_model_that_is_kept_after_its_unload_is_found() -> None:
    """Loaded it adds 100 MiB, and 95 of them stay."""
    chart = _cycles(lambda i: 50 if i <= 10 else 150 if i <= 20 else 145, (10, 20))
    finding = found("memory_kept", chart)
    assert finding.subject == "m"
    assert (value(finding, "added by a load"), value(finding, "kept after its unload")) == (100, 95)


def test_repeated_loads_that_each_leave_something_are_one_finding() -> None:
    """Three loads, each of which leaves its weights: one model, one finding, with the sum."""

    def memory(i: int) -> float:
        kept = 40 * sum(i > end for end in (8, 18, 28))
        return 50 + kept + 50 * any(a < i <= b for a, b in ((4, 8), (14, 18), (24, 28)))

    finding = found("memory_kept", _cycles(memory, (4, 8), (14, 18), (24, 28)))
    assert value(finding, "loads and unloads seen") == 3
    assert value(finding, "kept in all") == pytest.approx(120)


def test_model_that_goes_is_fine_though_the_allocator_keeps_some() -> None:
    """A fifth of what was added stays with the allocator, for the next."""
    chart = _cycles(lambda i: 50 if i <= 10 else 150 if i <= 20 else 70, (10, 20))
    assert is_fine("memory_kept", chart)


def test_growth_that_no_load_explains_is_not_blamed_on_a_model() -> None:
    """A leak beside it makes memory grow by more than the load ever added."""
    chart = _cycles(lambda i: 50 + 10 * i + (20 if 10 < i <= 20 else 0), (10, 20))
    assert "something else" in why_not("memory_kept", chart)


def test_unloads_that_were_not_watched_are_not_judged() -> None:
    """Memory before, during and after is needed, and the clock of the run."""
    before = _cycles(lambda i: 50, (10, 20))
    late = replace(before, readings=tuple(r for r in before.readings if r.at_ns > 15 * NS_PER_S))
    assert "before, during and after" in why_not("memory_kept", late)
    assert "no model was loaded" in why_not("memory_kept", _cycles(lambda i: 50))
    assert "not known" in why_not("memory_kept", replace(before, started_at_ns=None))


def test_models_that_come_and_go_at_once_are_not_judged() -> None:
    """Another model's load or unload in between moves memory, too."""
    chart = _cycles(lambda i: 50 if i <= 10 else 150 if i <= 20 else 145, (10, 20))
    other = _cycles(lambda i: 0, (5, 15), model="other")
    replicas = [*chart.course.replicas, *other.course.replicas]
    beside = replace(chart, course=a_course(replicas=replicas))
    assert "m: memory was not read" in why_not("memory_kept", beside)


def test_memory_of_devices_counts_for_what_is_kept() -> None:
    """Weights lie on the device; the worker's own memory does not move."""

    def reading(i: int) -> Reading:
        used = 50 if i <= 10 else 150
        chart = of_devices(1, lambda _: {"processes": ((2, used * MIB),)})
        return replace(
            chart.readings[0], at_ns=i * NS_PER_S, processes=(a_process(memory_bytes=10 * MIB),)
        )

    chart = replace(_cycles(lambda i: 0, (10, 20)), readings=tuple(map(reading, range(40))))
    assert value(found("memory_kept", chart), "kept in all") == 100
