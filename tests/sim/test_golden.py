"""A committed journal: a run with a bit of everything, which must replay and come out the same.

When a decision is changed on purpose, `python tests/sim/test_golden.py` writes it anew; the
difference then shows in review what was changed for whom.
"""

from pathlib import Path

import msgspec

from headway.core import (
    Kernel,
    KernelParams,
    ModelLoadRequested,
    ModelUnloadRequested,
    RequestCancelled,
    SlotClass,
)
from headway.observe import JournalHeader, read_journal, replay
from headway.policy import priority
from headway.predict import Profile
from headway.sim import Fault, SharedLanes, World, record_into
from headway.testing import MeanPredictor, a_device, a_model, a_request
from headway.units import NS_PER_MS

GOLDEN = Path(__file__).parent / "golden" / "mixed.journal"
DEVICE = a_device(lanes=[0, 0])
PARAMS = KernelParams(devices=(DEVICE,))
OCR = Profile({1: 4 * NS_PER_MS, 4: 10 * NS_PER_MS})


def a_fresh_kernel():
    """As the run had it."""
    return Kernel(PARAMS, priority(MeanPredictor({"ocr": OCR, "asr": OCR})))


def the_run():
    """Records of two models, two classes, batching, linger, a reload, a fault, and an unload."""
    records = []
    world = World(
        a_fresh_kernel(),
        SharedLanes(
            lambda dispatch: OCR.service_ns(dispatch.rows),
            [DEVICE],
            {SlotClass.HIGH: 68.0, SlotClass.LOW: 1.0},
        ),
        observe=record_into(records),
        load_ns=15 * NS_PER_MS,
    )
    ocr = {"batch_rows_max": 4, "linger": "2ms"}
    world.load([a_model("ocr", **ocr), a_model("asr", queue_requests_max=4)])
    world.schedule(30 * NS_PER_MS, ModelLoadRequested(model=a_model("ocr", version="2", **ocr)))
    world.schedule(52 * NS_PER_MS, RequestCancelled(request_id=34))
    world.schedule(230 * NS_PER_MS, ModelUnloadRequested(model="asr"))
    world.run(the_requests(), faults=[Fault(80 * NS_PER_MS, "cpu:0")])
    return records


def the_requests():
    """Sixty requests, a pattern rather than chance: three in a row low, one tight, one large."""
    for number in range(1, 61):
        is_high = number % 4 == 0
        yield a_request(
            number,
            model="asr" if number % 3 == 0 else "ocr",
            at=number * 3 * NS_PER_MS // 2 + (100 * NS_PER_MS if number > 50 else 0),
            budget="12ms" if number % 7 == 0 else "150ms",
            rows=3 if number % 5 == 0 and number % 3 else 1,
            version="1" if number in (17, 19) else "",
            priority=0 if is_high else 3,
            tier="high" if is_high else "low",
            slot_class=SlotClass.HIGH if is_high else SlotClass.LOW,
        )


def the_journal():
    """Header and records as they stand in the file."""
    header = JournalHeader(
        headway="golden",
        started_at="2000-01-01T00:00:00+00:00",
        params=PARAMS,
        policy={"kind": "priority"},
    )
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (header, *the_run()))


def test_golden_run_comes_out_the_same():
    """The simulator and the kernel decide today what they decided when it was committed."""
    assert the_journal().splitlines() == GOLDEN.read_bytes().splitlines()


def test_golden_journal_replays_identically():
    """The recorded events give the recorded commands, without the simulator."""
    _, records = read_journal(GOLDEN)
    records = list(records)
    assert replay(a_fresh_kernel(), records) == (len(records), None)


def test_golden_run_has_a_bit_of_everything():
    """A journal that covers little would guard little."""
    _, records = read_journal(GOLDEN)
    told = {type(command).__name__ for record in records for command in record.commands}
    assert told >= {
        "Cancel",
        "CancelBatch",
        "Complete",
        "ConcludeLoad",
        "ConcludeUnload",
        "Dispatch",
        "Expire",
        "Fail",
        "LoadReplica",
        "Reject",
        "SetTimer",
        "UnloadReplica",
    }


def test_replay_finds_a_change():
    """A record that says something else is pointed at."""
    _, records = read_journal(GOLDEN)
    records = list(records)
    at = next(i for i, record in enumerate(records) if record.commands)
    records[at] = msgspec.structs.replace(records[at], commands=[])
    count, divergence = replay(a_fresh_kernel(), records)
    assert (count, divergence.record) == (at, records[at])


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_bytes(the_journal())
