"""Readings of a real device: it says what it is, and nothing is out of its range."""

import pytest

from headway.devices import open_nvml

READER = open_nvml()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(READER is None, reason="there is no NVIDIA device that nvidia-ml-py finds"),
]


def test_real_device_says_what_it_is():
    """Its name, its memory and the width of its link; nothing is out of its range."""
    assert READER is not None
    READER.read()
    readings = READER.read()
    assert readings
    for reading in readings:
        assert reading.product
        assert reading.uuid
        assert reading.memory_total_bytes is not None
        assert reading.memory_used_bytes is not None
        assert 0 <= reading.memory_used_bytes <= reading.memory_total_bytes
        assert reading.utilization_ratio is None or 0 <= reading.utilization_ratio <= 1
        assert reading.temperature_c is None or 0 < reading.temperature_c < 120
        if reading.pcie_width is not None and reading.pcie_width_max is not None:
            assert 1 <= reading.pcie_width <= reading.pcie_width_max
