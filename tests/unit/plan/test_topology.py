"""Who is near whom: the printed matrix, the devices' own words, and the hops of chains."""

import pytest
from msgspec.structs import replace
from tests.planned import GIB, a_demand, a_device, a_fleet, a_model, devices

from headway.core import ModelName
from headway.errors import ConfigError
from headway.plan import (
    Chain,
    NodeTopology,
    Proximity,
    chain_reaches,
    plan_sharing,
    proximity,
    read_topology,
)

PAIRS = """
	GPU0	GPU1	GPU2	GPU3	NIC0	CPU Affinity	NUMA Affinity	GPU NUMA ID
GPU0	 X 	NV12	PXB	SYS	PIX	0-31,64-95	0		N/A
GPU1	NV12	 X 	NODE	SYS	PIX	0-31,64-95	0		N/A
GPU2	PXB	NODE	 X 	NV12	SYS	32-63	1		N/A
GPU3	SYS	SYS	NV12	 X 	SYS	32-63	1		N/A
NIC0	PIX	PIX	SYS	SYS	 X

Legend:
  X    = Self
"""


def test_a_printed_matrix_is_read() -> None:
    """Codes of pairs and NUMA nodes; networks and the legend are left aside."""
    topology = read_topology(PAIRS)
    assert topology.pairs == {
        (0, 1): Proximity.NVLINK,
        (0, 2): Proximity.SWITCH,
        (0, 3): Proximity.NODE,
        (1, 2): Proximity.SOCKET,
        (1, 3): Proximity.NODE,
        (2, 3): Proximity.NVLINK,
    }
    assert topology.numa == {0: 0, 1: 0, 2: 1, 3: 1}


def test_pairs_of_links_are_domains_of_their_own() -> None:
    """Bridged pairs make two domains; a chain of links makes one, in whatever order it is read."""
    assert read_topology(PAIRS).nvlink_domains() == {0: 0, 1: 0, 2: 2, 3: 2}
    links = {(2, 3): Proximity.NVLINK, (1, 2): Proximity.NVLINK, (0, 3): Proximity.NVLINK}
    assert NodeTopology(links, {}).nvlink_domains() == dict.fromkeys(range(4), 0)


def test_a_matrix_without_affinities_is_read() -> None:
    """Older drivers print fewer columns."""
    text = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-7\nGPU1\tPHB\t X \t0-7\n"
    assert read_topology(text) == NodeTopology({(0, 1): Proximity.SOCKET}, {})


@pytest.mark.parametrize("text", ["", "no devices were found", "GPU0 GPU1"])
def test_what_is_no_matrix_is_refused(text: str) -> None:
    """With what to save instead."""
    with pytest.raises(ConfigError, match="no topology") as caught:
        read_topology(text)
    assert "nvidia-smi topo -m" in str(caught.value.hint)


def test_what_devices_say_of_themselves_counts_without_a_matrix() -> None:
    """Link, socket, node, network: the nearest that is known."""
    linked = {"nvlink_domain": "d"}
    one = a_device("n/gpu:0", numa_node=0, **linked)
    assert proximity(one, one) is Proximity.SAME
    assert proximity(one, a_device("o/gpu:0", **linked)) is Proximity.NVLINK
    assert proximity(one, a_device("n/gpu:1", numa_node=0)) is Proximity.SOCKET
    assert proximity(one, a_device("n/gpu:1", numa_node=1)) is Proximity.NODE
    assert proximity(one, a_device("n/gpu:1")) is Proximity.NODE
    assert proximity(one, a_device("o/gpu:0")) is Proximity.NETWORK


def test_a_matrix_counts_before_sockets() -> None:
    """It knows of switches."""
    topologies = {"n": read_topology(PAIRS)}
    one, other = a_device("n/gpu:0"), a_device("n/gpu:2")
    assert proximity(one, other, topologies) is Proximity.SWITCH


def test_steps_of_a_chain_are_placed_near_each_other() -> None:
    """Of two devices with room the one beside the step before is taken."""
    first = a_model("first", weights_bytes=60 * GIB, rate_rps=40.0)
    other = a_model("other", weights_bytes=60 * GIB, rate_rps=40.0)
    second = a_model("second", weights_bytes=GIB, rate_rps=1.0)
    demand = a_demand(other, first, second)
    chain = Chain(
        name=ModelName("c"),
        steps=(ModelName("first"), ModelName("second")),
        rate_rps=1.0,
        budget_ns=10**9,
    )
    fleet = a_fleet(a_device("n/gpu:0"), a_device("o/gpu:0"))
    (reach,) = chain_reaches(
        plan_sharing(replace(demand, chains=(chain,)), fleet),
        replace(demand, chains=(chain,)),
        fleet,
    )
    assert reach.hops == {"same": 1.0}
    assert reach.worst == "same"


def test_hops_are_weighted_by_what_goes_over_them() -> None:
    """A step on two devices, asked from one of them: half of its requests go over the link."""
    demand = a_demand(
        a_model("a", rate_rps=1.0),
        a_model("b", rate_rps=100.0, replicas_min=2, spread="device"),
    )
    steps = (ModelName("a"), ModelName("b"))
    chain = Chain(name=ModelName("c"), steps=steps, rate_rps=1.0, budget_ns=10**9)
    demand = replace(demand, chains=(chain,))
    fleet = a_fleet(*devices(2, nvlink_domain="d"))
    (reach,) = chain_reaches(plan_sharing(demand, fleet), demand, fleet)
    assert sum(reach.hops.values()) == pytest.approx(1.0)
    assert set(reach.hops) == {"same", "nvlink"}
    assert reach.worst == "nvlink"
