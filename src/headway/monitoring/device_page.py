"""The page of devices: how busy, how full, how hot, what workers hold, what was wasted."""

from headway.monitoring.dashboard import Dashboard, Query, Row, Unit, Variable, lines
from headway.monitoring.queries import DEVICE, SERVER, gauges, legend_of, rate, rates

__all__ = ["device_page"]

_BY = "instance, device"


def device_page() -> Dashboard:
    """What runs on what."""
    return Dashboard(
        name="devices",
        title="headway: devices",
        says="How busy and how full devices are, who uses them, and how their workers fare.",
        variables=[
            Variable("job", "headway_slots"),
            Variable("instance", "headway_slots"),
            Variable("device", "headway_slots"),
        ],
        rows=[_use_row(), _time_row(), _worker_row(), _hardware_row()],
    )


def _use_row() -> Row:
    low, full = ["HeadwayUtilisationLow"], ["HeadwayDeviceMemoryHigh"]
    busy = rate("headway_slots_busy_seconds_total", _BY, DEVICE)
    used = f"max by ({_BY}) (headway_device_memory_used_bytes{DEVICE})"
    return Row(
        "How busy are they, and how full?",
        [
            lines(
                "Slots busy",
                "Part of the slots' time that batches took.",
                Unit.RATIO,
                Query(f"{busy} / max by ({_BY}) (headway_slots{DEVICE})", legend_of(_BY)),
                alerts=low,
            ),
            lines(
                "Utilisation",
                "As the device tells it; of cores, those of the machine. A device that cannot tell "
                "has no line.",
                Unit.RATIO,
                gauges("headway_device_utilization_ratio", _BY, DEVICE, how="max"),
                alerts=low,
            ),
            lines(
                "Memory in use",
                "Of the device's, by headway and by all others on it.",
                Unit.RATIO,
                Query(
                    f"{used} / max by ({_BY}) (headway_device_memory_total_bytes{DEVICE})",
                    legend_of(_BY),
                ),
                alerts=full,
            ),
        ],
    )


def _time_row() -> Row:
    return Row(
        "Who uses them?",
        [
            lines(
                "Slots by model and tier",
                "Slots that each kept busy on average.",
                Unit.COUNT,
                rates("headway_device_seconds_total", "model, tier", DEVICE),
                is_stacked=True,
            ),
            lines(
                "Slots by device",
                "The same, by device.",
                Unit.COUNT,
                rates("headway_device_seconds_total", _BY, DEVICE),
                is_stacked=True,
            ),
            lines(
                "Slots wasted, by reason",
                "Spent for requests that were late, gone or failed.",
                Unit.COUNT,
                rates("headway_device_wasted_seconds_total", "model, reason", DEVICE),
                is_stacked=True,
            ),
        ],
    )


def _worker_row() -> Row:
    leak, loop = ["HeadwayLeakSuspected"], ["HeadwayWorkerCrashLoop"]
    by = "instance, worker"
    return Row(
        "How do workers fare?",
        [
            lines(
                "Memory of workers and of the server",
                "Resident. It grows while models load and warm up, and should then be flat.",
                Unit.BYTES,
                gauges("headway_worker_memory_bytes", by, SERVER, how="max"),
                gauges(
                    "process_resident_memory_bytes",
                    "instance",
                    SERVER,
                    how="max",
                    prefix="server ",
                ),
                alerts=leak,
            ),
            lines(
                "Device memory of workers",
                "As the device tells it.",
                Unit.BYTES,
                gauges("headway_worker_device_memory_bytes", f"{by}, device", DEVICE, how="max"),
                alerts=leak,
            ),
            lines(
                "Starts and losses",
                "A loss is a process that ended without being asked to.",
                Unit.PER_SECOND,
                rates("headway_worker_starts_total", by, SERVER, prefix="starts "),
                rates("headway_worker_losses_total", "instance", SERVER, prefix="losses "),
                alerts=loop,
            ),
        ],
    )


def _hardware_row() -> Row:
    return Row(
        "How is the hardware?",
        [
            lines(
                "PCIe",
                "Bytes over the link, each way.",
                Unit.BYTES_PER_SECOND,
                rates("headway_device_pcie_bytes_total", f"{_BY}, direction", DEVICE),
            ),
            lines(
                "Throttled",
                "1 while the device runs slower than it could, by reason.",
                Unit.COUNT,
                gauges("headway_device_throttled", f"{_BY}, reason", DEVICE, how="max"),
            ),
            lines(
                "Power",
                "What the device draws.",
                Unit.WATTS,
                gauges("headway_device_power_watts", _BY, DEVICE, how="max"),
            ),
            lines(
                "Temperature",
                "Of the device.",
                Unit.CELSIUS,
                gauges("headway_device_temperature_celsius", _BY, DEVICE, how="max"),
            ),
            lines(
                "Emulated",
                "1 where devices are emulated: then no time was measured on a real one.",
                Unit.COUNT,
                gauges("headway_emulated", "instance", SERVER, how="max"),
            ),
        ],
    )
