"""What processes are started with: the device they find, and the limits they keep."""

from tests.fake_machine import FakeGpu, FakeMachine
from tests.sharing_plans import a_cut_device, a_device, a_plan, a_seat, an_instance, an_mps_seat

from headway.plan import SharingMode
from headway.rollout import environments, servers_of

STATE = "/run/headway"
SEATS = (an_mps_seat("a", 60, 9), an_mps_seat("b", 50, 8))
PLAN = a_plan(
    a_cut_device(
        an_instance("3g.40gb@0", a_seat("speech")),
        an_instance("2g.20gb@4", *SEATS, inside=SharingMode.MPS),
    ),
    a_device(a_seat("chat", gang_rank=0), index=1),
    a_device(a_seat("chat", gang_rank=1), index=2),
    a_device(a_seat("rank"), a_seat("tag"), inside=SharingMode.STREAMS, index=3),
)


def test_each_process_finds_its_own_device() -> None:
    """An instance by its UUID, devices by index, a client of MPS by its daemon's folder."""
    machine = FakeMachine(*(FakeGpu() for _ in range(4)))
    machine.put(0, "3g.40gb@0", "2g.20gb@4")
    found = environments(servers_of(PLAN), machine.gpus(), STATE)
    assert [(one.models, one.where, one.is_known) for one in found] == [
        (("speech",), "GPU 0, 3g.40gb at 0", True),
        (("a",), "GPU 0, 2g.20gb at 4", True),
        (("b",), "GPU 0, 2g.20gb at 4", True),
        (("chat",), "GPU 1; GPU 2", True),
        (("rank", "tag"), "GPU 3", True),
    ]
    assert [one.values for one in found] == [
        {"CUDA_VISIBLE_DEVICES": "MIG-0-1"},
        {
            "CUDA_MPS_PIPE_DIRECTORY": "/run/headway/gpu0-at-4/pipe",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "60",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=9216M",
            "CUDA_MPS_CLIENT_PRIORITY": "0",
        },
        {
            "CUDA_MPS_PIPE_DIRECTORY": "/run/headway/gpu0-at-4/pipe",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8192M",
            "CUDA_MPS_CLIENT_PRIORITY": "0",
        },
        {"CUDA_VISIBLE_DEVICES": "1,2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        {"CUDA_VISIBLE_DEVICES": "3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    ]


def test_instance_that_is_not_made_yet_is_not_known() -> None:
    """Nor one in parts, of which a process would see only the first."""
    machine = FakeMachine(*(FakeGpu() for _ in range(4)))
    speech, client, *_ = environments(servers_of(PLAN), machine.gpus(), STATE)
    assert speech.values == {"CUDA_VISIBLE_DEVICES": "MIG-UUID"}
    assert not speech.is_known
    assert not client.is_known
