"""The board: what a glance says of scripted steps, right whenever one first looks."""

from collections.abc import Mapping

import msgspec
import pytest

from headway.core import (
    BatchFailed,
    BatchId,
    ModelName,
    ModelUnloadRequested,
    ReplicaId,
    ReplicasLost,
    ReplicaStopped,
    RequestCancelled,
    RequestId,
    UnloadReplica,
)
from headway.observe import (
    About,
    Board,
    Glance,
    Kept,
    ModelNow,
    RecentSteps,
    Sources,
    TierGoal,
)
from headway.observe.glance import BatchFate
from headway.testing import Dialogue, a_device, a_kernel, a_model
from headway.units import NS_PER_MS, NS_PER_S

ABOUT = About(version="1", policy="fifo", predictor="fixed", is_emulated=True, can_load=True)
GOALS = {
    "normal": TierGoal(priority=1, budget_ns=NS_PER_S, target_ratio=0.99),
    "bulk": TierGoal(priority=5, budget_ns=9 * NS_PER_S, target_ratio=0.5),
}
ALL = 10_000


class Watched:
    """A kernel that is talked to, its last steps, and a board of them."""

    def __init__(self, talk: Dialogue | None = None, *, steps_max: int = 10_000, **sources) -> None:
        self.talk = talk or a_kernel(slots=2, models=["m", "other"])
        self.recent = RecentSteps(steps_max)
        self.now_ns = 0
        self.kept: Mapping[str, Kept] = {}
        self._told = 0
        self.board = Board(
            ABOUT,
            GOALS,
            self.recent,
            Sources(
                self.talk.kernel,
                lambda: max(self.now_ns, self.talk.now_ns),
                lambda: self.kept,
                lambda: [ModelNow(name="m", version="1", state="READY", reason="")],
                **sources,
            ),
        )

    def catch_up(self, steps_max: int = ALL) -> bool:
        """Show the board what was said so far."""
        for record in self.talk.records[self._told :]:
            self.recent(record.now_ns, record.event, record.commands)
        self._told = len(self.talk.records)
        return self.board.catch_up(steps_max)

    def first(self) -> Glance:
        """A whole glance, now."""
        assert self.catch_up()
        return self.board.first()

    def next(self) -> Glance:
        """What is new, now."""
        assert self.catch_up()
        return self.board.next()


def tier(glance: Glance, name: str = "normal"):
    return next(each for each in glance.tiers if each.name == name)


def test_glance_of_a_server_that_did_nothing_is_whole() -> None:
    """Before the first request every part is there, and empty."""
    glance = Watched().first()
    assert [each.name for each in glance.tiers] == ["normal", "bulk"]
    assert tier(glance).now == Kept(0, 0)
    assert [(each.name, each.lanes, each.running) for each in glance.devices] == [
        ("cpu:0", [0, 0], [])
    ]
    assert (glance.queues, glance.ended, glance.tenants, glance.refusals) == ([], [], [], [])
    assert glance.about.is_emulated
    assert glance.models[0].state == "READY"


def test_queue_of_a_model_that_was_unloaded_is_gone_with_it() -> None:
    """It is there for as long as the model is, also while nobody waits."""
    watched = Watched()
    talk = watched.talk
    talk.arrives(1, at="10ms")
    talk.finishes(1, at="20ms")
    assert [(each.model, each.depth) for each in watched.first().queues] == [("m", 0)]
    talk.handle(ModelUnloadRequested(model=ModelName("m")), at="30ms")
    for command in talk.records[-1].commands:
        if isinstance(command, UnloadReplica):
            talk.handle(ReplicaStopped(replica_id=command.replica_id), at="40ms")
    assert ModelName("m") not in talk.kernel.queues
    assert watched.first().queues == []


def test_tiers_count_what_was_in_time_and_what_was_not() -> None:
    """An answer in time is kept; a late one and a refused one are not; a cancelled is none."""
    watched = Watched(a_kernel(slots=1, models=[a_model(queue_requests_max=1)]))
    talk = watched.talk
    talk.arrives(1, at="10ms")
    talk.finishes(1, at="20ms")
    talk.arrives(2, budget="5ms", late="1s", at="30ms")
    talk.arrives(3)
    talk.arrives(4)  # the queue holds one
    talk.finishes(2, at="50ms")  # late for the second
    talk.handle(RequestCancelled(request_id=RequestId(3)), at="60ms")
    watched.kept = {"normal": Kept(8, 4)}
    glance = watched.first()
    assert tier(glance).now == tier(glance).minute == Kept(ended=3, in_time=1)
    assert tier(glance).start == Kept(8, 4)
    assert tier(glance, "bulk").now == Kept(0, 0)
    assert [(each.outcome, each.reason, each.count) for each in glance.reasons] == [
        ("rejected", "model_queue_full", 1)
    ]
    (refusal,) = glance.refusals
    assert (refusal.request, refusal.reason, refusal.budget_ms) == (4, "model_queue_full", 1000)
    assert refusal.retry_ms is not None


def test_windows_forget_what_is_old() -> None:
    """After ten seconds it is not now any more, after a minute it is not of the last minute."""
    watched = Watched()
    watched.talk.arrives(1, at="1s")
    watched.talk.finishes(1, at="1010ms")
    watched.now_ns = 5 * NS_PER_S
    assert tier(watched.first()).now == Kept(1, 1)
    watched.now_ns = 12 * NS_PER_S
    assert (tier(watched.first()).now, tier(watched.first()).minute) == (Kept(0, 0), Kept(1, 1))
    watched.now_ns = 61 * NS_PER_S
    assert tier(watched.first()).minute == Kept(0, 0)


def test_queues_say_what_waits_and_for_how_long() -> None:
    """By model and tier; a queue that is empty again says so."""
    watched = Watched(a_kernel(slots=1, models=["m", "other"]))
    talk = watched.talk
    talk.arrives(1, at="10ms")
    talk.arrives(2, at="20ms", tier="bulk")
    talk.arrives(3, at="30ms", tier="bulk")
    watched.now_ns = 50 * NS_PER_MS
    found = {(each.model, each.tier): each for each in watched.first().queues}
    assert (found["m", "normal"].depth, found["m", "normal"].oldest_ms) == (0, 0)
    assert (found["m", "bulk"].depth, found["m", "bulk"].oldest_ms) == (2, 30)
    assert found["m", "bulk"].wait_ms is None  # nothing is known yet
    talk.finishes(1, at="60ms")
    talk.finishes(2, at="70ms")
    found = {(each.model, each.tier): each for each in watched.first().queues}
    assert found["m", "bulk"].depth == 0


def test_slots_show_what_runs_and_what_ran() -> None:
    """A batch is on its slot from its start, and among those that ended from its end."""
    watched = Watched(a_kernel(slots=2, models=["m"]))
    talk = watched.talk
    talk.arrives(1, at="10ms", tenant="a")
    talk.arrives(2, at="10ms", tier="bulk", tenant="b")
    (device,) = watched.first().devices
    assert [(run.slot, run.tier, run.started_ms) for run in device.running] == [
        (0, "normal", 10),
        (1, "bulk", 10),
    ]
    talk.finishes(1, at="40ms")
    glance = watched.next()
    (batch,) = glance.ended
    assert (batch.slot, batch.model, batch.tier, batch.rows) == (0, "m", "normal", 1)
    assert (batch.started_ms, batch.took_ms, batch.fate) == (10, 30, BatchFate.IN_TIME)
    assert [run.slot for run in glance.devices[0].running] == [1]
    assert watched.next().ended == []


@pytest.mark.parametrize(
    ("event", "fate"),
    [
        (
            BatchFailed(batch_id=BatchId(1), code="executor_failed", message="no"),
            BatchFate.FAILED,
        ),
        (ReplicasLost(replica_ids=(ReplicaId(1),), message="gone"), BatchFate.FAILED),
        (BatchFailed(batch_id=BatchId(1), code="cancelled", message=""), BatchFate.UNWANTED),
    ],
)
def test_batch_that_did_not_finish_says_how_it_ended(event, fate) -> None:
    """Raised, lost, or taken back: the slot is free in each case."""
    watched = Watched()
    watched.talk.arrives(1, at="10ms")
    watched.talk.handle(event, at="20ms")
    glance = watched.first()
    assert [batch.fate for batch in glance.ended] == [fate]
    assert [device.running for device in glance.devices] == [[]]


def test_batch_for_nobody_is_told_from_one_that_was_wanted() -> None:
    """Its only request was given up while it ran."""
    watched = Watched()
    watched.talk.arrives(1, at="10ms", budget="5ms")
    watched.talk.wakes(at="15ms")
    watched.talk.finishes(1, at="30ms")
    glance = watched.first()
    assert [batch.fate for batch in glance.ended] == [BatchFate.UNWANTED]
    assert glance.refusals[0].outcome == "expired"


def test_tenants_share_the_time_of_slots() -> None:
    """By the rows that each had in a batch; weights and limits are those of the configuration."""
    model = a_model(batch_rows_max=8)
    watched = Watched(
        a_kernel(slots=1, models=[model]),
        refused=lambda: {"a": 7, "c": 2},
        weights=lambda: {"a": 3.0},
    )
    talk = watched.talk
    talk.arrives(1, at="10ms", tenant="b")
    talk.arrives(2, tenant="a", rows=3)
    talk.arrives(3, tenant="b")
    talk.finishes(1, at="20ms")
    talk.finishes(2, at="60ms")
    tenants = {each.name: each for each in watched.first().tenants}
    assert (tenants["a"].device_ms, tenants["b"].device_ms) == (30, 20)
    assert (tenants["a"].share_ratio, tenants["b"].share_ratio) == (0.6, 0.4)
    assert (tenants["a"].weight, tenants["b"].weight) == (3.0, None)
    assert (tenants["a"].refused, tenants["c"].refused, tenants["c"].device_ms) == (7, 2, 0)
    assert (tenants["b"].kept.ended, tenants["c"].kept.ended) == (2, 0)


def test_tenants_that_are_too_many_are_counted_together() -> None:
    """Whoever makes up names cannot make a glance long."""
    watched = Watched()
    for index in range(1, 201):
        watched.talk.arrives(index, at=index * NS_PER_MS, tenant=f"t{index}")
        watched.talk.finishes(index, at=index * NS_PER_MS + 500_000)
    glance = watched.first()
    assert len(glance.tenants) == 12
    assert glance.tenants_left_out == 65 - 12
    assert glance.tenants[0].name == "others"
    assert glance.tenants[0].kept.ended == 200 - 64


def test_predictions_are_judged_by_what_came() -> None:
    """A predictor that has learnt is scored; one that knew nothing is not."""
    watched = Watched(a_kernel(slots=1, models=["m"]))
    for index in range(1, 12):
        watched.talk.arrives(index, at=index * 100 * NS_PER_MS)
        watched.talk.finishes(index, at=(index * 100 + 10) * NS_PER_MS)
    glance = watched.first()
    known = [batch for batch in glance.ended if batch.bound_ms]
    assert glance.service.judged == len(known)
    assert glance.service.covered == sum(b.took_ms <= b.bound_ms for b in known)


def test_first_look_in_the_middle_knows_what_lives() -> None:
    """What began before the steps that are kept is taken from the kernel, and ends as it should."""
    watched = Watched(a_kernel(slots=1, models=["m"]), steps_max=1)
    talk = watched.talk
    talk.arrives(1, at="10ms")
    talk.arrives(2, at="20ms", tier="bulk")
    talk.arrives(3, at="30ms")
    glance = watched.first()
    assert [(run.model, run.started_ms) for run in glance.devices[0].running] == [("m", 10)]
    depths = {each.tier: each.depth for each in glance.queues}
    assert depths == {"normal": 1, "bulk": 1}
    talk.finishes(1, at="40ms")
    assert tier(watched.next()).now == Kept(1, 1)


def test_look_after_a_gap_begins_anew() -> None:
    """Steps that nobody took are gone: what is known is counted, and nothing lives twice."""
    watched = Watched(a_kernel(slots=1, models=["m"]), steps_max=4)
    talk = watched.talk
    talk.arrives(1, at="10ms")
    watched.first()
    for index in range(2, 12):
        talk.arrives(index, at=index * 10 * NS_PER_MS)
    for index in range(1, 11):
        talk.finishes(index, at=(200 + index) * NS_PER_MS)
    glance = watched.first()
    assert sum(each.depth for each in glance.queues) == 0
    assert len(glance.devices[0].running) == 1
    assert tier(glance).minute.ended == 0
    talk.finishes(11, at="220ms")
    assert tier(watched.next()).minute.ended == 1


def test_board_of_a_server_that_keeps_no_steps_shows_what_lives() -> None:
    """Of what has ended nothing is known; what waits and runs is the kernel's own word."""
    watched = Watched(a_kernel(slots=1, models=["m"]), steps_max=0)
    watched.first()
    watched.talk.arrives(1, at="10ms")
    watched.talk.arrives(2)
    for _ in range(2):
        glance = watched.next()
        assert [each.depth for each in glance.queues] == [1]
        assert len(glance.devices[0].running) == 1
    watched.talk.finishes(1, at="20ms")
    watched.talk.finishes(2, at="30ms")
    glance = watched.next()
    assert (sum(each.depth for each in glance.queues), glance.devices[0].running) == (0, [])


def test_board_takes_no_more_at_once_than_it_is_told() -> None:
    """Whoever looks first after much has happened does not hold the loop."""
    watched = Watched()
    for index in range(1, 51):
        watched.talk.arrives(index, at=index * NS_PER_MS)
        watched.talk.finishes(index, at=index * NS_PER_MS + 10)
    steps = 1
    assert not watched.catch_up(7)
    while not watched.board.catch_up(7):
        steps += 1
    assert steps == len(watched.talk.records) // 7
    assert tier(watched.board.first()).minute.ended == 50


def test_glances_are_bounded_however_much_has_ended() -> None:
    """Of very many batches an even part is listed, and the rest is counted."""
    watched = Watched()
    assert watched.catch_up()
    for index in range(1, 1001):
        watched.talk.arrives(index, at=index * NS_PER_MS)
        watched.talk.finishes(index, at=index * NS_PER_MS + 10)
    glance = watched.next()
    assert len(glance.ended) <= 300
    assert len(glance.ended) + glance.ended_left_out == 1000
    gaps = {
        b.started_ms - a.started_ms for a, b in zip(glance.ended, glance.ended[1:], strict=False)
    }
    assert len(gaps) == 1


def test_next_tells_only_what_is_new() -> None:
    """Each batch and refusal once, and only a first glance has the seconds before it."""
    watched = Watched(a_kernel(slots=1, models=[a_model(queue_requests_max=1)]))
    talk = watched.talk
    talk.arrives(1, at="10ms")
    talk.arrives(2)
    talk.arrives(3)
    first = watched.first()
    assert ([r.request for r in first.refusals], len(first.seconds)) == ([3], 1)
    talk.arrives(4, at="20ms")
    talk.finishes(1, at="30ms")
    second = watched.next()
    assert [each.request for each in second.refusals] == [4]
    assert (len(second.ended), second.seconds) == (1, [])
    third = watched.next()
    assert (third.ended, third.refusals) == ([], [])


def test_glance_is_what_its_description_says() -> None:
    """It reads back from JSON as it was."""
    watched = Watched(a_kernel(slots=1, models=[a_model(queue_requests_max=1)]))
    watched.talk.arrives(1, at="10ms", tenant="<b>")
    watched.talk.arrives(2)
    watched.talk.arrives(3)
    watched.talk.finishes(1, at="30ms")
    glance = watched.first()
    assert len(glance.refusals) == len(glance.ended) == 1
    assert msgspec.json.decode(msgspec.json.encode(glance), type=Glance) == glance


def test_devices_are_told_apart_by_their_places() -> None:
    """A batch names its device by the place of it in the list."""
    devices = [a_device("cpu:0"), a_device("cpu:1", lanes=[0, 1])]
    model = a_model(devices=("cpu:0", "cpu:1"))
    watched = Watched(a_kernel(devices=devices, models=[model]))
    for index in (1, 2, 3):
        watched.talk.arrives(index, at="10ms")
    for index in (1, 2, 3):
        watched.talk.finishes(index, at=(20 + index) * NS_PER_MS)
    glance = watched.first()
    places = {(batch.device, batch.slot) for batch in glance.ended}
    assert places == {(0, 0), (1, 0), (1, 1)}
    assert [len(device.lanes) for device in glance.devices] == [1, 2]
