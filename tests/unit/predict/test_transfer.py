"""Copies on a tree of links: shares, queues, chunks, and what is learnt."""

import pytest

from headway.core import BatchId, BucketKey, ModelName, Run, SlotClass, SlotIndex, Stages
from headway.predict.flows import Copy, Flows
from headway.predict.link_residual import LogResidual
from headway.predict.links import Direction, Link, LinkShares, LinkTree, max_min
from headway.predict.pace import CROWD_COUNT, Pace
from headway.predict.run_transfers import RunBytes, RunTransfers
from headway.predict.scene import Neighbour
from headway.predict.transfer import TransferModel

G = 1_000_000_000
MB = 1_000_000
LAUNCH_NS = 10_000


def link(name, parent="", rate=G, both=0.0):
    """A link of the same rate both ways."""
    return Link(
        name=name,
        parent=parent,
        in_bytes_per_s=rate,
        out_bytes_per_s=rate,
        both_bytes_per_s=both,
    )


def tree(*, node=4 * G, both=0.0, switch=G, chunk_bytes=MB, launch_ns=LAUNCH_NS):
    """Two switches below a node, a and b below the first, c below the second."""
    return LinkTree(
        links=(
            link("node", rate=node, both=both),
            link("s0", "node", switch),
            link("s1", "node", switch),
            link("a", "s0"),
            link("b", "s0"),
            link("c", "s1"),
        ),
        devices={"a": "a", "b": "b", "c": "c"},
        launch_ns=launch_ns,
        chunk_bytes=chunk_bytes,
    )


def copy(copy_id, device="a", size_bytes=MB, direction=Direction.IN, priority=0):
    """A megabyte takes a millisecond alone."""
    return Copy(
        copy_id=copy_id,
        device=device,
        direction=direction,
        size_bytes=size_bytes,
        priority=priority,
    )


def plain(**shape):
    """The formula alone."""
    return TransferModel(tree(**shape), learns=False)


def left_ms(forecasts):
    """Copy to milliseconds without a launch."""
    return {f.copy_id: round((f.left_ns - LAUNCH_NS) / 1e6, 3) for f in forecasts}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"links": (link("x"), link("x"))}, "each its own"),
        ({"links": (link("a", "gone"),), "devices": {"a": "a"}}, "is missing"),
        ({"links": (link("a", "b"), link("b", "a")), "devices": {"a": "a"}}, "does not reach"),
        ({"links": (link("a", rate=0),), "devices": {"a": "a"}}, "positive capacities"),
        ({"links": (link("n"), link("a", "n", both=G)), "devices": {"a": "a"}}, "no limit on both"),
        ({"links": (link("a"),), "devices": {"a": "b"}}, "does not reach"),
        ({"devices": {}}, "needs a device"),
        ({"chunk_bytes": 0}, "chunk_bytes"),
    ],
)
def test_trees_that_make_no_sense_are_refused(change, says):
    """A circle, a hole or a capacity of nothing is found when the tree is made."""
    given = {"links": (link("a"),), "devices": {"a": "a"}, "launch_ns": 0, "chunk_bytes": 1}
    with pytest.raises(ValueError, match=says):
        LinkTree(**(given | change))


def test_filling_gives_what_one_cannot_use_to_the_others():
    """Two behind a narrow limit have half of it each, the third takes what is left above."""
    assert max_min([(0, 1), (0, 1), (0,)], [10.0, 4.0]) == [2.0, 2.0, 6.0]


def test_copy_alone_takes_launch_and_size_over_the_narrowest_link():
    """Nothing else is on the way."""
    model = plain(switch=G // 2)
    assert model.forecast(copy(1), 0)[0].left_ns == pytest.approx(LAUNCH_NS + 2e6)
    assert model.duration_ns(copy(1), 0) == pytest.approx(LAUNCH_NS + 2e6)


def test_devices_under_one_switch_share_it():
    """The one elsewhere has its own; the short one's end frees the long one."""
    model = plain()
    model.started(copy(1, "a", 2 * MB), 0)
    model.started(copy(2, "b", MB), 0)
    assert left_ms(model.forecast(copy(3, "c", MB), 0)) == {1: 3.0, 2: 2.0, 3: 1.0}


def test_directions_share_host_memory_only_where_it_says_so():
    """A limit on both directions halves two copies that cross, and no limit leaves them alone."""
    for both, expected_ms in ((0.0, 1.0), (1.0 * G, 2.0)):
        model = plain(both=both)
        model.started(copy(1, "a", direction=Direction.OUT), 0)
        assert left_ms(model.forecast(copy(2, "a"), 0))[2] == expected_ms


def test_copies_of_one_engine_queue():
    """The second starts when the first has ended, with a launch of its own."""
    model = plain()
    model.started(copy(1, "a", 2 * MB), 0)
    second = model.forecast(copy(2, "a", MB), 0)[0]
    assert second.left_ns == pytest.approx(2 * LAUNCH_NS + 3e6)


def test_urgent_copy_waits_for_one_chunk():
    """A long unimportant copy gives way at the end of its chunk, and goes on afterwards."""
    model = plain()
    model.started(copy(1, "a", 50 * MB, priority=1), 0)
    now_ns = LAUNCH_NS + 2_500_000
    urgent, long_one = model.forecast(copy(2, "a", 3 * MB), now_ns)
    assert urgent.left_ns == pytest.approx(0.5e6 + LAUNCH_NS + 3e6)
    assert long_one.left_ns == pytest.approx(47.5e6 + 3e6 + 2 * LAUNCH_NS)


def test_equals_do_not_overtake():
    """Only a more important copy goes first."""
    model = plain()
    model.started(copy(1, "a", 50 * MB), 0)
    assert model.forecast(copy(2, "a", MB), 0)[0].left_ns > 50e6


def test_time_that_has_passed_is_taken_off():
    """Half of it is done at half time, and a forecast changes nothing."""
    model = plain()
    model.started(copy(1), 0)
    at_ns = LAUNCH_NS + 500_000
    assert model.forecast(None, at_ns) == model.forecast(None, at_ns)
    assert model.forecast(None, at_ns)[0].left_ns == pytest.approx(500_000)


def test_overdue_copy_stays_until_its_end_is_told():
    """It goes on taking its share, and is said to need a little more."""
    model = plain()
    model.started(copy(1), 0)
    late_ns = LAUNCH_NS + 3_000_000
    assert 0 < model.forecast(None, late_ns)[0].left_ns <= 100_000
    assert model.duration_ns(copy(2, "b"), late_ns) > LAUNCH_NS + 1e6
    model.finished(1, late_ns)
    assert model.forecast(None, late_ns) == []


def test_copy_that_is_not_told_of_leaves_when_it_is_due():
    """Batches report their copies late: the links are free before that."""
    model = plain()
    model.started(copy(1), 0, is_told=False)
    assert model.forecast(None, 2_000_000) == []
    model.finished(1, 9_000_000, took_ns=1_000_000)


def test_later_copies_slow_down_what_they_meet():
    """A copy that will start half way takes half of the second half."""
    model = plain(launch_ns=0)
    later = [(500_000, copy(2, "b", 5 * MB))]
    assert model.duration_ns(copy(1), 0, later) == pytest.approx(1.5e6)
    assert model.forecast(copy(1), 0, later)[0].left_ns == pytest.approx(1.5e6)


def test_unknown_ends_are_ignored():
    """What was never started cannot be finished or dropped."""
    model = plain()
    model.finished(7, 0)
    model.dropped(7, 0)
    model.started(copy(1), 0)
    model.dropped(1, 10)
    assert model.forecast(None, 10) == []


def test_device_that_is_not_on_the_tree_is_an_error():
    """There is no path to guess."""
    with pytest.raises(KeyError):
        plain().duration_ns(copy(1, "z"), 0)


def play(model, count, took_ns, gap_ns=5_000_000, **shape):
    """Copies one after another that take what they take."""
    for number in range(1, count + 1):
        at_ns = number * gap_ns
        model.started(copy(number, **shape), at_ns)
        model.finished(number, at_ns + took_ns)
    return model


def test_slow_links_are_learnt():
    """Copies that always take 1.4 times the rated time are predicted within 3 % after thirty."""
    model = play(TransferModel(tree()), 30, 1_400_000)
    assert model.duration_ns(copy(0), 10**9) == pytest.approx(1.4e6, rel=0.03)


def test_cost_of_company_is_learnt_apart_from_a_copy_alone():
    """Two that share a switch lose a fifth more than half; one alone loses nothing."""
    model = TransferModel(tree(launch_ns=1000))
    for number in range(1, 200):
        at_ns = number * 20_000_000
        pair = [copy(2 * number, "a"), copy(2 * number + 1, "b")][: 1 + number % 2]
        for one in pair:
            model.started(one, at_ns)
        for one in pair:
            model.finished(one.copy_id, at_ns + (1_001_000 if len(pair) == 1 else 2_401_000))
    now_ns = 10**12
    assert model.duration_ns(copy(0, "a"), now_ns) == pytest.approx(1.0e6, rel=0.04)
    model.started(copy(1, "b"), now_ns)
    assert model.duration_ns(copy(0, "a"), now_ns) == pytest.approx(2.4e6, rel=0.06)


def test_nothing_is_learnt_when_learning_is_off():
    """The formula stays as it is."""
    assert play(plain(), 30, 5_000_000).duration_ns(copy(0), 10**9) == pytest.approx(1.01e6)


def test_state_survives_a_restart_and_belongs_to_its_tree():
    """What was learnt is taken up on the same tree, and ignored on another."""
    model = play(TransferModel(tree()), 30, 1_400_000)
    state = model.state()
    same, other = TransferModel(tree()), TransferModel(tree(switch=2 * G))
    same.restore(state)
    other.restore(state)
    fresh_ns = TransferModel(tree(switch=2 * G)).duration_ns(copy(0), 0)
    assert same.duration_ns(copy(0), 0) == pytest.approx(
        model.duration_ns(copy(0), 10**9), rel=0.02
    )
    assert other.duration_ns(copy(0), 0) == fresh_ns


@pytest.mark.parametrize(
    "law",
    [
        None,
        {"weights": None, "covariance": [None] * 7},
        {"weights": [0.1], "covariance": [[1.0]]},
        {"weights": ["x"] * 7, "covariance": [[1.0] * 7] * 7},
        {"weights": [0.1] * 7, "covariance": [[-1.0] * 7] * 7},
        {"weights": [float("nan")] * 7, "covariance": [[1.0] * 7] * 7},
    ],
)
def test_state_that_does_not_fit_is_ignored(law):
    """A damaged file leaves the formula as it is."""
    model = TransferModel(tree())
    model.restore(TransferModel(tree()).state() | {"law": law})
    assert model.duration_ns(copy(0), 0) == pytest.approx(1.01e6)


def test_copies_that_never_end_are_forgotten():
    """The oldest go once there are more than the limit."""
    model = plain(launch_ns=0)
    for number in range(1, 300):
        model.started(copy(number, size_bytes=1), 0)
    assert len(model.forecast(None, 0)) == 256


def test_copy_that_took_less_than_its_wait_teaches_nothing():
    """An end that cannot be true is not believed."""
    model = TransferModel(tree())
    model.started(copy(1, size_bytes=9 * MB), 0, is_told=False)
    model.started(copy(2), 0, is_told=False)
    model.finished(2, 20_000_000, took_ns=1)
    model.finished(1, 20_000_000, took_ns=9 * MB + LAUNCH_NS)
    assert model.duration_ns(copy(0), 10**9) == pytest.approx(1.01e6, rel=0.02)


def test_covariance_stays_bounded_without_news():
    """A feature that is never seen does not become infinitely uncertain: later news counts."""
    residual = LogResidual(2, load_from=2)
    for _ in range(2000):
        residual.learn((1.0, 0.0), 0.0)
    residual.learn((1.0, 1.0), 0.2)
    assert 0 < residual.weights[1] <= 0.2


def test_rates_are_kept_for_so_many_sets_of_engines():
    """On a tree of many devices the caches are emptied now and then, and the answers stay."""
    names = [f"d{i}" for i in range(7)]
    wide = LinkTree(
        links=tuple(link(name) for name in names),
        devices={name: name for name in names},
        launch_ns=0,
        chunk_bytes=MB,
    )
    pace = Pace(LinkShares(wide))
    for busy in range(1, 5000):
        assert set(pace.rates(busy)) == {1.0}


def test_rates_of_busy_engines_lose_what_company_costs():
    """With weights, a pair has less than its even share; alone nothing is lost."""
    shares = LinkShares(tree())
    pace = Pace(shares)
    a, b = shares.engine("a", Direction.IN), shares.engine("b", Direction.IN)
    assert pace.rates(1 << a | 1 << b) == (0.5, 0.5)
    pace.weigh([1.0] * CROWD_COUNT)
    assert pace.rates(1 << a) == (1.0,)
    assert max(pace.rates(1 << a | 1 << b)) < 0.5


def test_flows_list_each_copy_once_even_when_it_gave_way():
    """The rest of a copy that was cut is the same copy."""
    pace = Pace(LinkShares(tree()))
    flows = Flows(tree(), pace)
    flows.add(copy(1, size_bytes=9 * MB, priority=1))
    flows.advance(2e6)
    flows.add(copy(2))
    assert [one.copy_id for one in flows] == [2, 1]
    assert sum(flows.left_bytes().values()) == pytest.approx(10 * MB - 1.99 * MB)
    flows.remove(1)
    assert [one.copy_id for one in flows] == [2]


# What batches move.


def run(batch_id, device="a", rows=1, priority=0):
    """A batch."""
    return Run(
        batch_id=BatchId(batch_id),
        model=ModelName("m"),
        bucket=BucketKey(""),
        rows=rows,
        payload_bytes=rows * MB,
        device=device,
        slot=SlotIndex(0),
        lane=0,
        slot_class=SlotClass.HIGH,
        priority=priority,
    )


def transfers(learns=False):
    """A megabyte a row in, half of one out."""
    model = TransferModel(tree(), learns=learns)
    return RunTransfers(model, lambda r: RunBytes(r.payload_bytes, r.rows * MB // 2))


def test_batch_alone_pays_both_ways():
    """In and out at the rate of its link."""
    times = transfers().times(run(0), (), 0)
    assert times.in_ns == pytest.approx(1.01e6)
    assert times.out_ns == pytest.approx(0.51e6)
    assert transfers().transfer_ns(run(0), (), 0) == pytest.approx(1.52e6)


def test_batch_beside_one_that_copies_waits_for_it():
    """The same engine is busy, whoever asks."""
    seam = transfers()
    seam.started(run(1, rows=4), 5e6, 0)
    assert seam.times(run(0), (), 0).in_ns == pytest.approx(4.01e6 + 1.01e6)
    assert seam.times(run(0), (), 4_010_000).in_ns == pytest.approx(1.01e6)


def test_copies_out_to_come_are_reckoned_with():
    """On a machine whose memory both directions share, a neighbour's end costs time."""
    model = TransferModel(tree(both=G), learns=False)
    seam = RunTransfers(model, lambda r: RunBytes(r.payload_bytes, r.payload_bytes))
    seam.started(run(1, "c"), 1e6, 0)
    asked_at_ns = 1_500_000
    late = Neighbour(run(1, "c"), 1e6, 50e6)
    expected_ns = seam.times(run(0), (), asked_at_ns).in_ns
    assert expected_ns == pytest.approx(0.51e6 + 2 * 0.5e6)
    assert seam.times(run(0), (late,), asked_at_ns).in_ns == pytest.approx(1.01e6)


def test_batch_that_ran_or_was_lost_is_off_the_links():
    """Its copies are gone, and ends of unknown batches are ignored."""
    seam = transfers()
    seam.started(run(1, rows=9), 5e6, 0)
    seam.dropped(BatchId(1), 10)
    seam.dropped(BatchId(1), 10)
    seam.finished(BatchId(1), Stages(service_ns=1), 10)
    assert seam.times(run(0), (), 10).in_ns == pytest.approx(1.01e6)


def test_slow_stages_are_learnt_from_batches():
    """In and out that take 1.5 times the rated time are predicted within 6 % after forty."""
    seam = transfers(learns=True)
    for number in range(1, 41):
        at_ns = number * 20_000_000
        seam.started(run(number), 3e6, at_ns)
        stages = Stages(
            service_ns=6_000_000,
            transfer_in_ns=1_515_000,
            execution_ns=3_000_000,
            transfer_out_ns=765_000,
        )
        seam.finished(BatchId(number), stages, at_ns + 5_280_000)
    times = seam.times(run(0), (), 10**9)
    assert times.in_ns == pytest.approx(1.515e6, rel=0.06)
    assert times.out_ns == pytest.approx(0.765e6, rel=0.06)
    again = transfers(learns=True)
    again.restore(seam.state())
    assert again.times(run(0), (), 0).out_ns == pytest.approx(times.out_ns)


def test_batches_that_never_end_are_forgotten():
    """The oldest go once there are more than the limit."""
    seam = transfers()
    for number in range(1, 200):
        seam.started(run(number), 1e12, 0)
    seam.finished(BatchId(1), Stages(service_ns=1), 10)
    assert seam.times(run(0), (), 10).in_ns == pytest.approx(129 * 1.01e6, rel=0.001)


@pytest.mark.parametrize("state", [{}, {"links": 1, "out": 2}])
def test_seam_ignores_state_that_does_not_fit(state):
    """A damaged file leaves the formula as it is."""
    seam = transfers(learns=True)
    seam.restore(state)
    assert seam.times(run(0), (), 0).in_ns == pytest.approx(1.01e6)


def test_device_elsewhere_has_no_transfer():
    """A CPU is not on the tree."""
    seam = transfers()
    assert seam.transfer_ns(run(0, "cpu"), (), 0) == 0.0
    assert seam.started(run(1, "cpu"), 1e6, 0).total_ns == 0.0
