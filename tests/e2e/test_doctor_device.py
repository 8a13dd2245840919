"""`headway doctor --device` beside a driver's library that says what it is told.

The readings cross the library's real boundary; nothing is said of a real device.
"""

import json
import threading

import pytest

nvml = pytest.importorskip("tests.fake_nvml.build", reason="there is no stand-in for the driver")
pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
pytestmark = pytest.mark.skipif(nvml.COMPILER is None, reason="there is no C compiler")

MIB = 1 << 20
DOCTOR = """
import sys
from headway.cli import main
sys.exit(main(["doctor", *{words!r}, "--format", "json"]) % 3)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The stand-in, as a driver of today has it."""
    return nvml.build_library(tmp_path_factory.mktemp("nvml"))


def diagnosed(library, scenario, said, *words):
    """The findings about a device that says this, by their codes."""
    nvml.write_scenario(scenario, said)
    program = DOCTOR.format(words=["--device", "cuda:0", "--seconds", "1.5", *words])
    diagnosis = json.loads(nvml.run_with(library, scenario, program))
    return {finding["code"]: finding for finding in diagnosis["findings"]}


def test_device_of_this_machine_is_diagnosed(library, tmp_path):
    """Half of its lanes, an older generation, heat and power: each is found, with its numbers."""
    found = diagnosed(library, tmp_path / "scenario", nvml.load_scenario("h100"))
    assert set(found) == {"narrow_link", "throttling"}
    assert {"name": "lanes in use", "value": 8, "unit": ""} in found["narrow_link"]["evidence"]
    assert {"name": "for", "value": "hw_thermal, sw_power_cap", "unit": ""} in found["throttling"][
        "evidence"
    ]


def test_healthy_device_alarms_nobody(library, tmp_path):
    """Busy, cool, and on all of its lanes."""
    assert diagnosed(library, tmp_path / "scenario", nvml.load_scenario("a100")) == {}


def test_leak_of_a_process_on_a_device_is_found(library, tmp_path):
    """A process takes 8 MiB more at every look, while another keeps what it has."""
    scenario, is_over = tmp_path / "scenario", threading.Event()
    said = nvml.load_scenario("a100")

    def leak() -> None:
        grown = 0
        while not is_over.wait(0.1):
            grown += 8 * MIB
            held = {
                "0.mem.used": 8192 * MIB + grown,
                "0.procs": f"11:{2048 * MIB + grown},12:{MIB}",
            }
            nvml.write_scenario(scenario, {**said, **held})

    thread = threading.Thread(target=leak)
    thread.start()
    try:
        found = diagnosed(library, scenario, said, "--seconds", "4")
    finally:
        is_over.set()
        thread.join()
    assert set(found) == {"device_memory_leak"}
    assert found["device_memory_leak"]["subject"] == "pid 11 on cuda:0"
