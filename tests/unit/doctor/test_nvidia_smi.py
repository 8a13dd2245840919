"""CSV of nvidia-smi, as its manual describes it: with units and without, whole and cut short.

Written by hand to the documented columns; none was recorded.
"""

from datetime import datetime
from pathlib import Path

import pytest

from headway.doctor import Chart, Severity, diagnose
from headway.doctor.nvidia_smi import read_nvidia_smi
from headway.errors import ConfigError, HeadwayError
from headway.units import NS_PER_S

GPU_HEAD = (
    "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB],"
    " pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max,"
    " clocks_event_reasons.active"
)


def _stamp(second: float) -> str:
    return f"2026/11/30 12:00:{second:06.3f}"


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_devices_are_read_with_units(tmp_path):
    """Two devices at one look are one reading; the instant is the machine's."""
    path = write(
        tmp_path / "smi.csv",
        GPU_HEAD,
        f"{_stamp(1)}, 0, 35 %, 1024 MiB, 81920 MiB, 3, 4, 8, 16, 0x0000000000000044",
        f"{_stamp(1.002)}, 1, 0 %, 0 MiB, 81920 MiB, 1, 4, 16, 16, 0x0000000000000001",
        f"{_stamp(2)}, 0, 36 %, 1025 MiB, 81920 MiB, 3, 4, 8, 16, 0x0000000000000000",
        f"{_stamp(2.002)}, 1, 0 %",
    )
    first, second = read_nvidia_smi([path])
    expected = datetime(2026, 11, 30, 12, 0, 1).astimezone()
    assert first.at_ns == round(expected.timestamp() * NS_PER_S)
    assert [device.name for device in first.devices] == ["cuda:0", "cuda:1"]
    device = first.devices[0]
    assert (device.utilization_ratio, device.memory_used_bytes) == (0.35, 1024 << 20)
    assert (device.pcie_generation, device.pcie_generation_max) == (3, 4)
    assert (device.pcie_width, device.pcie_width_max) == (8, 16)
    assert device.throttle_reasons == ("sw_power_cap", "hw_thermal")
    assert first.devices[1].throttle_reasons == ()  # to have nothing to do is none
    assert [device.name for device in second.devices] == ["cuda:0"]


def test_devices_are_read_without_units_and_what_is_not_told_is_unknown(tmp_path):
    """`nounits`, an older version's reasons a column each, and `[N/A]`."""
    path = write(
        tmp_path / "smi.csv",
        "timestamp, index, utilization.gpu [%], memory.used [MiB],"
        " clocks_throttle_reasons.sw_thermal_slowdown, clocks_throttle_reasons.hw_slowdown",
        f"{_stamp(1)}, 0, [N/A], 512, Active, Not Active",
    )
    (reading,) = read_nvidia_smi([path])
    (device,) = reading.devices
    assert (device.utilization_ratio, device.memory_used_bytes) == (None, 512 << 20)
    assert device.throttle_reasons == ("sw_thermal",)
    assert device.can_tell_throttling
    assert device.memory_total_bytes is None


def test_device_whose_clocks_were_not_asked_for_cannot_tell(tmp_path):
    """No column is not the same as no reason."""
    path = write(
        tmp_path / "a.csv", "timestamp, index, utilization.gpu [%]", f"{_stamp(1)}, 0, 5 %"
    )
    (reading,) = read_nvidia_smi([path])
    assert not reading.devices[0].can_tell_throttling


def test_processes_join_the_look_that_is_nearest(tmp_path):
    """Of the device whose name they give; what is far from any look is left out."""
    devices = write(
        tmp_path / "gpu.csv",
        "timestamp, index, uuid, memory.used [MiB]",
        f"{_stamp(1)}, 0, GPU-a, 100 MiB",
        f"{_stamp(1)}, 1, GPU-b, 100 MiB",
        f"{_stamp(2)}, 0, GPU-a, 100 MiB",
        f"{_stamp(2)}, 1, GPU-b, 100 MiB",
    )
    apps = write(
        tmp_path / "apps.csv",
        "timestamp, gpu_uuid, pid, used_gpu_memory [MiB]",
        f"{_stamp(1.1)}, GPU-b, 77, 90 MiB",
        f"{_stamp(1.9)}, GPU-b, 77, 91 MiB",
        f"{_stamp(9)}, GPU-b, 77, 99 MiB",
    )
    first, second = read_nvidia_smi([devices, apps])
    assert [device.processes for device in first.devices] == [(), ((77, 90 << 20),)]
    assert [device.processes for device in second.devices] == [(), ((77, 91 << 20),)]


def test_processes_alone_are_readings_of_their_device(tmp_path):
    """Without a file of devices the memory of a process can still be followed."""
    lines = [f"{_stamp(i / 2)}, GPU-a, 77, {500 + 8 * i} MiB" for i in range(40)]
    path = write(tmp_path / "apps.csv", "timestamp, gpu_uuid, pid, used_gpu_memory [MiB]", *lines)
    diagnosis = diagnose(Chart(readings=read_nvidia_smi([path])))
    (leak,) = [each for each in diagnosis.findings if each.code == "device_memory_leak"]
    assert leak.subject == "pid 77 on GPU-a"


def test_recorded_device_is_diagnosed(tmp_path):
    """Idle, throttled, on half of its lanes: all of it out of one file."""
    lines = [
        f"{_stamp(i)}, 0, 15 %, 1024 MiB, 81920 MiB, 4, 4, 8, 16, 0x0000000000000020"
        for i in range(50)
    ]
    path = write(tmp_path / "smi.csv", GPU_HEAD, *lines)
    diagnosis = diagnose(Chart(readings=read_nvidia_smi([path])))
    assert {(f.code, f.severity) for f in diagnosis.findings} == {
        ("idle_device", Severity.NOTE),
        ("throttling", Severity.WARNING),
        ("narrow_link", Severity.WARNING),
    }


@pytest.mark.parametrize(
    "text",
    ["", "index, utilization.gpu [%]\n0, 5 %\n", "timestamp, index\nyesterday, 0\n",
     "timestamp, pid, used_gpu_memory [MiB]\n2026/11/30 12:00:01.000, x, 5 MiB\n",
     "x" * 200_000, "timestamp, index\n2026/11/30 12:00:01.000, " + "0" * 200_000],
)  # fmt: skip
def test_anything_else_is_refused(tmp_path, text):
    """An empty file, one without instants, with words for numbers, and no table at all."""
    path = tmp_path / "smi.csv"
    path.write_text(text)
    if text:
        with pytest.raises(HeadwayError, match=r"smi\.csv"):
            read_nvidia_smi([path])
    else:
        with pytest.raises(HeadwayError, match="no CSV"):
            read_nvidia_smi([path])
    with pytest.raises(ConfigError, match="cannot read"):
        read_nvidia_smi([tmp_path / "none.csv"])
