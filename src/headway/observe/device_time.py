"""Whose the time of slots was, and how much of it came to nothing.

A batch holds a slot from its dispatch to its end, and each member has its part of that by its rows.
The part of a member that was answered in time was useful; that of one that was late, whose client
had gone, or that failed was not. It is known when the request has ended and the batch too: whatever
comes first waits for the other.

Knows batches, devices and fates. Refuses to know what a request was answered.

Cost: an addition for each member of a batch that ends.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, Metric

from headway.core import Dispatch
from headway.units import NS_PER_S

if TYPE_CHECKING:
    from headway.observe.requests import Live, SeriesTable

__all__ = ["FAILED", "GONE", "LATE", "Cell", "DeviceTime", "Spent", "waste"]

LATE: Final = "late"
GONE: Final = "gone"
FAILED: Final = "failed"


class Cell:
    """Time of the slots of one device for one model in one tier. Invariants: wasted <= ran."""

    __slots__ = ("ran_ns", "wasted_ns")

    def __init__(self) -> None:
        self.ran_ns = 0
        self.wasted_ns = {LATE: 0, GONE: 0, FAILED: 0}


class Spent(NamedTuple):
    """Time that was spent for a request that has not ended, the last batch first."""

    cell: Cell
    ran_ns: int
    before: "Spent | None"


def waste(live: "Live", fate: str) -> None:
    """A request has ended so that whatever was spent for it, and will be, came to nothing."""
    live.fate = fate
    spent = live.spent
    while spent is not None:
        spent.cell.wasted_ns[fate] += spent.ran_ns
        spent = spent.before
    live.spent = None


class DeviceTime:
    """Adds up the time of slots as batches end. Invariants: the cells' time is the devices'."""

    def __init__(self) -> None:
        self._ran_ns: dict[str, int] = {}

    def ran(self, dispatch: Dispatch, members: Sequence["Live"], service_ns: int) -> int:
        """A batch that held a slot for so long has ended, well or badly.

        Returns: how many of its members had not ended before.
        """
        device = dispatch.device
        self._ran_ns[device] = self._ran_ns.get(device, 0) + service_ns
        if len(members) == 1:
            return _charge(members[0], device, service_ns)
        rows = told_ns = wanted_count = 0
        for live in members:
            rows += live.request.rows
            upto_ns = service_ns * rows // dispatch.rows  # so that the parts make up the whole
            wanted_count += _charge(live, device, upto_ns - told_ns)
            told_ns = upto_ns
        return wanted_count

    def families(
        self,
        table: "SeriesTable",
        devices: Iterable[str],
        running: Iterable[tuple[str, int]],
        now_ns: int,
    ) -> Iterator[Metric]:
        """What was added up, as metric families.

        Args:
            table: whose cells hold it.
            devices: all there are.
            running: device and start of each batch that runs.
            now_ns: until which a slot that is busy has been so.
        """
        labels = ("device", "model", "tier")
        ran = CounterMetricFamily(
            "headway_device_seconds",
            "Time of slots of batches that have ended; each request has its part of its batch's by"
            " rows.",
            labels=labels,
        )
        wasted = CounterMetricFamily(
            "headway_device_wasted_seconds",
            "The part of `headway_device_seconds_total` that came to nothing: of requests that were"
            " `late`, answered or not, whose client had `gone`, or that `failed`.",
            labels=(*labels, "reason"),
        )
        for (model, tier), series in table.items():
            for device, cell in series.cells.items():
                ran.add_metric((device, model, tier), cell.ran_ns / NS_PER_S)
                for reason, wasted_ns in cell.wasted_ns.items():
                    wasted.add_metric((device, model, tier, reason), wasted_ns / NS_PER_S)
        yield ran
        yield wasted
        yield self._busy(devices, running, now_ns)

    def _busy(
        self, devices: Iterable[str], running: Iterable[tuple[str, int]], now_ns: int
    ) -> Metric:
        busy_ns = {device: self._ran_ns.get(device, 0) for device in devices}
        for device, started_at_ns in running:
            busy_ns[device] += now_ns - started_at_ns
        family = CounterMetricFamily(
            "headway_slots_busy_seconds",
            "Time that slots were busy, added up, that of batches that run now included: its rate"
            " is how many were busy on average.",
            labels=("device",),
        )
        for device, total_ns in busy_ns.items():
            family.add_metric((device,), total_ns / NS_PER_S)
        return family


def _charge(live: "Live", device: str, ran_ns: int) -> bool:
    """A member's part; returns whether it was still waited for."""
    cells = live.series.cells
    cell = cells.get(device)
    if cell is None:
        cell = cells[device] = Cell()
    cell.ran_ns += ran_ns
    if live.fate:
        cell.wasted_ns[live.fate] += ran_ns
        return False
    live.spent = Spent(cell, ran_ns, live.spent)
    return True
