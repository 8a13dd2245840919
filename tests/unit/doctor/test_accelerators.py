"""Whether accelerators are used, slowed, shared and well connected."""

import pytest
from msgspec.structs import replace
from tests.unit.doctor.charts import (
    MIB,
    a_machine,
    a_process,
    found,
    is_fine,
    of_devices,
    value,
    watched,
    why_not,
)

from headway.doctor import Chart, OtherProcess, Severity


@pytest.mark.parametrize(
    ("what", "severity", "words"),
    [
        ({"slots_busy_ratio": 0.9}, Severity.WARNING, "while slots are busy"),
        ({"slots_busy_ratio": 0.1, "queue_depth": 4.0}, Severity.WARNING, "while requests wait"),
        ({"slots_busy_ratio": 0.1, "queue_depth": 0.0}, Severity.NOTE, "want of requests"),
        ({}, Severity.NOTE, "does little"),
    ],
)
def test_idle_device_is_judged_by_what_the_server_did(what, severity, words) -> None:
    """Little utilisation means something else with busy slots, with a queue, and without either."""
    finding = found("idle_device", of_devices(20, lambda _: {"utilization_ratio": 0.1}, **what))
    assert (finding.severity, finding.subject) == (severity, "cuda:0")
    assert words in finding.title


def test_busy_device_is_fine_and_a_silent_one_unknown() -> None:
    """Half of the readings above the threshold are enough; silence does not mean idle."""

    def half(period: int):
        return lambda i: {"utilization_ratio": 0.1 + 0.8 * (i % period == 0)}

    assert is_fine("idle_device", of_devices(20, half(2), slots_busy_ratio=1.0))
    few = of_devices(6, half(3), slots_busy_ratio=1.0)
    assert "watch longer" in why_not("idle_device", few)
    assert is_fine("idle_device", of_devices(20, lambda _: {"utilization_ratio": 0.8}))
    assert "are needed" in why_not("idle_device", of_devices(20, lambda _: {}))


def test_clocks_that_are_held_down_are_found_with_the_reason() -> None:
    """Heat in every second reading; a clock that somebody chose is none."""

    def reading(i: int) -> dict[str, object]:
        reasons = ("hw_thermal",) if i % 2 else ("applications_clocks",)
        return {"can_tell_throttling": True, "throttle_reasons": reasons}

    finding = found("throttling", of_devices(40, reading))
    assert value(finding, "readings with clocks held down") == 0.5
    assert [one.value for one in finding.evidence if one.name == "for"] == ["hw_thermal"]
    chosen = {"can_tell_throttling": True, "throttle_reasons": ("applications_clocks",)}
    assert is_fine("throttling", of_devices(40, lambda _: chosen))


def test_device_that_cannot_tell_its_clocks_is_unknown() -> None:
    """No reason from one that names none is not health; nor is silence of cores and devices."""
    assert "are needed" in why_not("throttling", of_devices(40, lambda _: {}))
    silent = Chart(readings=watched(5, lambda i: {"processes": (a_process(),)}))
    assert "neither" in why_not("throttling", silent)


def test_cores_that_were_slowed_are_found() -> None:
    """The processor's own count rises."""

    def look(i: int) -> dict[str, object]:
        return {"processes": (a_process(),), "machine": replace(a_machine(i), hot_count=100 + i)}

    assert found("throttling", Chart(readings=watched(5, look))).subject == "processor"


def _link(width: int, generation: int, used: float = 0.8) -> Chart:
    return of_devices(
        10,
        lambda _: {
            "utilization_ratio": used,
            "pcie_width": width,
            "pcie_width_max": 16,
            "pcie_generation": generation,
            "pcie_generation_max": 4,
        },
    )


def test_narrow_link_is_found_under_load_only() -> None:
    """Eight lanes of sixteen; at rest a link slows down by design."""
    finding = found("narrow_link", _link(8, 4))
    assert (value(finding, "lanes in use"), value(finding, "lanes that there could be")) == (8, 16)
    assert value(found("narrow_link", _link(16, 3)), "generation in use") == 3
    assert is_fine("narrow_link", _link(16, 4))
    assert "at rest" in why_not("narrow_link", _link(16, 1, used=0.0))
    assert "does not tell" in why_not("narrow_link", of_devices(10, lambda _: {}))


def _shared(*processes: tuple[int, int | None], used: float = 0.5, here: int = 99) -> Chart:
    """The server's is process 2."""

    def look(i: int) -> dict[str, object]:
        return {
            "processes": (a_process(2),),
            "machine": replace(a_machine(i), others=(OtherProcess(here, "train", 5),)),
        }

    device = of_devices(
        1,
        lambda _: {
            "utilization_ratio": used,
            "memory_total_bytes": 1000 * MIB,
            "processes": tuple((pid, None if m is None else m * MIB) for pid, m in processes),
        },
    )
    readings = watched(10, look)
    return Chart(readings=tuple(replace(r, devices=device.readings[0].devices) for r in readings))


def test_memory_that_others_hold_of_a_device_is_found() -> None:
    """Another program has a fifth of it; while the device is idle that is a note."""
    finding = found("device_neighbour", _shared((2, 400), (99, 200)))
    assert (value(finding, "memory that others hold"), finding.severity) == (0.2, Severity.WARNING)
    assert found("device_neighbour", _shared((99, 200), used=0.0)).severity is Severity.NOTE
    assert is_fine("device_neighbour", _shared((2, 400), (99, 10)))


def test_processes_that_a_driver_numbers_in_its_own_way_are_not_judged() -> None:
    """Seen from inside a container the numbers are the host's, and nobody's here."""
    assert "not seen from here" in why_not("device_neighbour", _shared((4711, 400)))
    bare = of_devices(10, lambda _: {"processes": ((2, 5),)})
    assert "give --pid" in why_not("device_neighbour", bare)


def test_contexts_that_are_not_closed_are_found() -> None:
    """A process more on the device every now and then, and none goes."""

    def reading(i: int) -> dict[str, object]:
        return {"processes": tuple((100 + k, 300 * MIB) for k in range(1 + i // 8))}

    finding = found("open_contexts", of_devices(40, reading))
    assert value(finding, "processes with a context at first") == 1
    assert value(finding, "in the end") == 5


def test_contexts_that_come_and_stay_or_go_are_fine() -> None:
    """Workers that start once, and ones that are replaced."""
    starts = of_devices(40, lambda i: {"processes": tuple((k, 1) for k in range(1 + (i > 5)))})
    assert is_fine("open_contexts", starts)
    replaced = of_devices(40, lambda i: {"processes": ((i // 8, 1),)})
    assert is_fine("open_contexts", replaced)
    assert "who uses it" in why_not("open_contexts", of_devices(40, lambda _: {}))
