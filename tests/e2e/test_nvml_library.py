"""NVIDIA's devices through the unmodified nvidia-ml-py, beside a library that says what it is told.

The library is built from C on the spot, so structures and error codes cross the real boundary.
Nothing is said of a real device.
"""

import json
from functools import partial

import pytest
from tests.e2e.server import a_config, serving, wait_until
from tests.fake_nvml.build import COMPILER, build_library, load_scenario, run_with, write_scenario
from tests.models import identity

from headway.core import Datatype

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

GIB = 1 << 30
H100 = load_scenario("h100")
LOOK = """
import json, msgspec
from headway.devices import open_nvml
reader = open_nvml()
looks = [] if reader is None else [msgspec.to_builtins(reader.read()) for _ in range(2)]
if reader is not None:
    reader.close()
print(json.dumps(looks))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The stand-in, as a driver of today has it."""
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def scenario(tmp_path):
    """What it says; a test writes it."""
    return tmp_path / "scenario"


def looks(library, scenario, said, program=LOOK):
    """Two looks of one reader, each a list of readings by name."""
    write_scenario(scenario, said)
    found = json.loads(run_with(library, scenario, program))
    return [{reading["name"]: reading for reading in look} for look in found]


def test_healthy_device_is_read_whole(library, scenario):
    """Every field arrives, in its unit; an idle clock is no throttling."""
    first, second = looks(library, scenario, H100)
    assert first["cuda:0"] | {"utilization_ratio": 0.425} == second["cuda:0"]
    assert second == {
        "cuda:0": {
            "name": "cuda:0",
            "uuid": "GPU-1234",
            "product": "NVIDIA H100 80GB HBM3",
            "is_partitioned": False,
            "utilization_ratio": 0.425,
            "memory_used_bytes": 39 * GIB,
            "memory_total_bytes": 78 * GIB,
            "pcie_sent_bytes": 5_000_000_000,
            "pcie_received_bytes": 70_000_000_000,
            "pcie_width": 8,
            "pcie_width_max": 16,
            "pcie_generation": 4,
            "pcie_generation_max": 5,
            "can_tell_throttling": True,
            "throttle_reasons": ["sw_power_cap", "hw_thermal"],
            "power_w": 350.5,
            "power_limit_w": 700.0,
            "energy_j": 9_000_000.5,
            "temperature_c": 71.0,
            "processes": [[11, 1000], [12, None]],
        }
    }


def test_counted_multiprocessors_are_the_utilization(library, scenario):
    """Where the device counts them they are preferred; a kernel ran all the time, on few."""
    first, second = looks(library, scenario, H100)
    assert first["cuda:0"]["utilization_ratio"] is None
    assert second["cuda:0"]["utilization_ratio"] == 0.425


def test_devices_that_count_nothing_tell_how_long_they_were_busy(library, scenario):
    """Several of them, each under its own name; none of the reasons is held where none is said."""
    _, look = looks(library, scenario, load_scenario("a100"))
    assert [reading["utilization_ratio"] for reading in look.values()] == [0.85, 0.0]
    assert [reading["throttle_reasons"] for reading in look.values()] == [[], []]
    assert all(reading["can_tell_throttling"] for reading in look.values())
    assert look["cuda:1"]["processes"] == []
    assert look["cuda:1"]["memory_used_bytes"] == 0


def test_samples_of_counts_are_given_back(library, scenario):
    """A reader that is closed leaves nothing in the driver."""
    program = LOOK + "import ctypes; library = ctypes.CDLL('libnvidia-ml.so.1')\n"
    program += "print(library.fake_nvml_samples_live())\n"
    write_scenario(scenario, H100)
    assert run_with(library, scenario, program).splitlines()[-1] == "0"


def test_slices_of_a_device_have_readings_of_their_own(library, scenario):
    """Indices have gaps; nobody counts how busy they are, so that is unknown and not 0."""
    _, look = looks(library, scenario, load_scenario("a100_mig"))
    assert list(look) == ["cuda:0", "cuda:0/mig:0", "cuda:0/mig:2"]
    assert [reading["is_partitioned"] for reading in look.values()] == [True, False, False]
    assert [reading["utilization_ratio"] for reading in look.values()] == [None, None, None]
    assert look["cuda:0"]["power_w"] == 90.0
    assert look["cuda:0/mig:0"]["power_w"] is None
    assert look["cuda:0/mig:0"]["memory_total_bytes"] == 5 * GIB
    assert look["cuda:0/mig:0"]["processes"] == [[21, 100]]


def test_slices_count_where_their_device_does(library, scenario):
    """Each by its own instance."""
    _, look = looks(library, scenario, load_scenario("h100_mig"))
    ratios = {name: reading["utilization_ratio"] for name, reading in look.items()}
    assert ratios == {"cuda:0": None, "cuda:0/mig:0": 0.25, "cuda:0/mig:2": 0.75}


def test_clients_of_a_shared_device_are_seen(library, scenario):
    """MPS lists its clients apart from its server; each is there once, with what is known of it."""
    _, look = looks(library, scenario, load_scenario("a100_mps"))
    processes = look["cuda:0"]["processes"]
    assert processes == [[11, 33_554_432], [12, 50], [13, 2000], [14, None]]


def test_what_is_not_supported_is_unknown(library, scenario):
    """A device that refuses everything is there, with a name, and says nothing."""
    _, look = looks(library, scenario, load_scenario("silent"))
    assert known(look["cuda:0"]) == {"name": "cuda:0"}


def test_device_that_was_lost_before_leaves_the_others_their_names(library, scenario):
    """What cannot be opened is not there; the second is not taken for the first."""
    _, look = looks(library, scenario, load_scenario("lost"))
    assert {name: known(reading)["uuid"] for name, reading in look.items()} == {
        "cuda:1": "GPU-bbbb"
    }


FALL = """
import json, msgspec, os, pathlib
from headway.devices import open_nvml
scenario = pathlib.Path(os.environ["FAKE_NVML"])
reader = open_nvml()
looks = [msgspec.to_builtins(reader.read()) for _ in range(2)]
scenario.write_text(scenario.read_text() + "0.lost 1\\n")
looks += [msgspec.to_builtins(reader.read()) for _ in range(2)]
reader.close()
print(json.dumps(looks))
"""


def test_device_that_falls_off_the_bus_says_nothing_from_then_on(library, scenario):
    """Its last numbers are not told as if they were true now, and no look fails."""
    _, before, *after = looks(library, scenario, H100, FALL)
    assert before["cuda:0"]["utilization_ratio"] == 0.425
    for look in after:
        assert known(look["cuda:0"]) == {"name": "cuda:0"}


def known(reading):
    """What a reading says, without what it does not know."""
    return {name: value for name, value in reading.items() if value not in (None, "", [], False)}


def test_older_driver_is_read_by_its_older_calls(tmp_path, scenario):
    """Without the newer ones what is reserved counts as used, as it always did."""
    older = build_library(tmp_path / "older", without_v2=True)
    _, look = looks(older, scenario, H100)
    reading = look["cuda:0"]
    assert reading["memory_used_bytes"] == 41 * GIB
    assert reading["memory_total_bytes"] == 80 * GIB
    assert reading["temperature_c"] == 71.0


RATES = """
import json, msgspec, pynvml
from headway.devices import NvmlReader
pynvml.nvmlInit()
at_ns = iter([0, 0, 2_000_000_000, 2_000_000_000])
reader = NvmlReader(pynvml, lambda: next(at_ns))
print(json.dumps([msgspec.to_builtins(reader.read()) for _ in range(2)]))
"""


def test_bytes_that_are_not_counted_are_made_of_rates(library, scenario):
    """A rate of now stands for the time since the last look."""
    first, second = looks(library, scenario, load_scenario("a100"), RATES)
    assert (first["cuda:0"]["pcie_sent_bytes"], first["cuda:0"]["pcie_received_bytes"]) == (0, 0)
    assert second["cuda:0"]["pcie_sent_bytes"] == 1_000_000
    assert second["cuda:0"]["pcie_received_bytes"] == 6_000_000


@pytest.mark.parametrize("code", [9, 18])
def test_driver_that_does_not_answer_is_no_reader(library, scenario, code):
    """It is not loaded, or another version than the library: nothing can be read."""
    assert looks(library, scenario, H100 | {"init": code}) == []


def test_machine_without_a_driver_is_no_reader(scenario):
    """There is no library to be found."""
    write_scenario(scenario, H100)
    if json.loads(run_with(None, scenario, LOOK)):
        pytest.skip("this machine has a driver of its own")


def test_server_exports_what_its_devices_say(library, scenario, tmp_path, monkeypatch):
    """As they say it now, under our names and, asked for, Triton's; workers have their memory."""
    write_scenario(scenario, H100 | {"0.procs": ""})
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_NVML", str(scenario))
    tiny = {"name": "tiny", "path": identity(tmp_path / "tiny.onnx", Datatype.FP32)}
    config = a_config(tiny, observe={"device_period": "50ms", "aliases": ["triton"]})
    with serving(tmp_path, config) as server:
        gpu = {"device": "cuda:0"}
        utilization = "headway_device_utilization_ratio"
        for device in ("cuda:0", "cpu:0"):
            told = partial(exports, server, utilization, device=device)
            wait_until(told, f"there are two looks at {device}")
        metrics = server.metrics()
        assert metrics.total(utilization, **gpu) == 0.425
        assert metrics.total("headway_device_memory_total_bytes", **gpu) == 78 * GIB
        received = {"direction": "received"}
        assert metrics.total("headway_device_pcie_bytes_total", **gpu, **received) == 7e10
        assert metrics.total("headway_device_throttled", **gpu, reason="hw_thermal") == 1
        assert metrics.total("headway_device_throttled", **gpu, reason="sync_boost") == 0
        assert metrics.total("nv_gpu_utilization", gpu_uuid="GPU-1234") == 0.425
        assert metrics.total("nv_gpu_power_usage", gpu_uuid="GPU-1234") == 350.5
        assert metrics.total("headway_device_energy_joules_total", **gpu) == 9_000_000.5
        assert 0 <= metrics.total(utilization, device="cpu:0") <= 1
        assert metrics.total("headway_device_memory_used_bytes", device="cpu:0") > 1 << 20
        assert metrics.total("headway_worker_memory_bytes", worker="cpu:0") > 1 << 20
        assert metrics.total("headway_worker_starts_total", worker="cpu:0") == 1

        held = ",".join(f"{pid}:4096" for pid in server.worker_pids())
        write_scenario(scenario, {"count": 1, "0.procs": held})
        name = "headway_worker_device_memory_bytes"
        wait_until(partial(exports, server, name), "the worker is found on the device")
        metrics = server.metrics()
        assert metrics.total(name, worker="cpu:0", **gpu) == 4096
        assert not exports(server, "headway_device_power_watts")
        assert not exports(server, "nv_gpu_utilization")


def exports(server, name, **labels):
    """Whether there is such a series."""
    return any(
        each == name and labels.items() <= has.items() for each, has, _ in server.metrics().all
    )
