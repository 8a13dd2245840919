"""What profilers' exports tell: small copies, launch gaps, transfers."""

import pytest
from tests.unit.doctor.charts import found, is_fine, value, why_not

from headway.doctor import Chart
from headway.profiling import (
    Copies,
    CopySpan,
    DeviceActivity,
    DeviceSpan,
    Direction,
    KernelTotal,
    NsightProfile,
)

US = 1_000


def _activity(
    count: int, *, kernel_us: int = 100, gap_us: int = 5, copies_each: int = 0, size: int = 4
) -> DeviceActivity:
    """Kernels one after another, with small copies to the host in the gaps."""
    kernels, copies, at_us = [], [], 0
    for _ in range(count):
        kernels.append(DeviceSpan(at_us * US, (at_us + kernel_us) * US))
        at_us += kernel_us + gap_us
        for _ in range(copies_each):
            copies.append(CopySpan(at_us * US, (at_us + 2) * US, Direction.DEVICE_TO_HOST, size))
            at_us += 2 + gap_us
    return DeviceActivity(file="run.sqlite", kernels=tuple(kernels), copies=tuple(copies))


def test_copies_between_kernels_are_found() -> None:
    """A scalar to the host after each kernel: a hidden `.item()`."""
    finding = found("small_copies", Chart(activity=_activity(40, copies_each=1)))
    assert finding.subject == "run.sqlite"
    assert value(finding, "small copies between kernels") == 39
    assert value(finding, "to the host") == 39
    assert is_fine("small_copies", Chart(activity=_activity(40)))
    large = _activity(40, copies_each=1, size=1 << 20)
    assert is_fine("small_copies", Chart(activity=large))
    assert "20 are needed" in why_not("small_copies", Chart(activity=_activity(5, copies_each=1)))


def test_copies_are_found_in_totals_too() -> None:
    """As many small copies as kernels, whenever they were."""

    def totals(copies: int, size_bytes: float | None) -> NsightProfile:
        copied = Copies(
            direction=Direction.DEVICE_TO_HOST, count=copies, size_bytes=size_bytes, time_ns=5.0
        )
        kernels = (KernelTotal(name="gemm", runs=100, time_ns=1e6),)
        return NsightProfile(file="stats.csv", kernels=kernels, copies=(copied,))

    finding = found("small_copies", Chart(totals=totals(90, 90 * 8.0)))
    assert value(finding, "small copies") == 90
    assert is_fine("small_copies", Chart(totals=totals(2, 16.0)))
    assert is_fine("small_copies", Chart(totals=totals(90, None)))
    few = NsightProfile(file="stats.csv", kernels=(KernelTotal(name="gemm", runs=3),))
    assert "20 are needed" in why_not("small_copies", Chart(totals=few))


def test_gaps_longer_than_kernels_are_found() -> None:
    """Five microseconds of work, twenty of waiting for the next launch."""
    finding = found("launch_gaps", Chart(activity=_activity(60, kernel_us=5, gap_us=20)))
    assert value(finding, "time between kernels, within a run") == pytest.approx(0.8)
    assert (value(finding, "gap"), value(finding, "kernel")) == (20, 5)
    assert is_fine("launch_gaps", Chart(activity=_activity(60)))


def test_pauses_between_requests_are_no_launch_gaps() -> None:
    """Two milliseconds without work: nobody asked."""
    assert is_fine("launch_gaps", Chart(activity=_activity(60, kernel_us=5, gap_us=2_000)))
    totals = NsightProfile(file="stats.csv", kernels=(KernelTotal(name="gemm", runs=99),))
    assert "nsys export" in why_not("launch_gaps", Chart(totals=totals))


def test_kernels_side_by_side_are_one_stretch_of_work() -> None:
    """Streams that overlap leave no gap between them."""
    spans = tuple(DeviceSpan(i * 5 * US, (i * 5 + 8) * US) for i in range(60))
    assert is_fine("launch_gaps", Chart(activity=DeviceActivity(file="run", kernels=spans)))


def test_copies_that_take_the_time_are_transfer_bound() -> None:
    """Longer over the link than in kernels, by spans or by totals."""
    spans = DeviceActivity(
        file="run.sqlite",
        kernels=tuple(DeviceSpan(i * 100 * US, (i * 100 + 20) * US) for i in range(30)),
        copies=tuple(
            CopySpan((i * 100 + 30) * US, (i * 100 + 90) * US, Direction.HOST_TO_DEVICE, 1 << 20)
            for i in range(30)
        ),
    )
    assert value(found("transfer_bound", Chart(activity=spans)), "kernels") == pytest.approx(0.6)
    totals = NsightProfile(
        file="stats.csv",
        kernels=(KernelTotal(name="gemm", runs=30, time_ns=1e6),),
        copies=(Copies(direction=Direction.HOST_TO_DEVICE, count=30, time_ns=3e6),),
    )
    assert found("transfer_bound", Chart(totals=totals)).subject == "stats.csv"
    assert is_fine("transfer_bound", Chart(activity=_activity(40)))
